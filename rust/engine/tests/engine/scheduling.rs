//! Who runs when, how requests end, and what the engine refuses.

use crate::support::driver::{Driver, config, request};
use crate::support::model::{PAGE_SIZE, STRIDE, VOCABULARY};
use crate::support::reference;
use spectrie_engine::{Engine, EngineConfig, EngineError, LogitRows, Request, Verdicts};
use spectrie_types::{FinishKind, SpeculationMode};

fn off() -> EngineConfig {
    EngineConfig {
        speculation: SpeculationMode::Off,
        ..config()
    }
}

#[test]
fn prompts_are_computed_in_chunks_beside_decoding_requests() {
    let mut driver = Driver::new(EngineConfig {
        chunk_tokens: 10,
        ..off()
    });
    driver.submit(request(1, &[5], 30));
    driver.step();
    driver.submit(request(2, &[7; 25], 1));
    let kinds_and_counts: Vec<_> = (0..3)
        .map(|_| {
            driver
                .step()
                .map(|plan| (plan.request_kind, plan.request_row_count))
                .unwrap()
        })
        .collect();
    let expected = [
        (vec![1, 0], vec![1, 10]),
        (vec![1, 0], vec![1, 10]),
        (vec![1, 0], vec![1, 5]),
    ];
    assert_eq!(kinds_and_counts, expected);
    assert_eq!((driver.tokens[&1].len(), driver.tokens[&2].len()), (4, 1));
}

#[test]
fn larger_priority_goes_first_then_earlier_arrival() {
    let mut driver = Driver::new(EngineConfig {
        max_running: 1,
        ..off()
    });
    for (handle, priority) in [(1, 0), (2, 5), (3, 0), (4, 5)] {
        driver.submit(Request {
            priority,
            ..request(handle, &[3, 4], 2)
        });
    }
    let mut order = Vec::new();
    while driver.step().is_some() {
        let mut ended: Vec<u64> = driver.finishes.keys().copied().collect();
        ended.retain(|handle| !order.contains(handle));
        order.extend(ended);
    }
    assert_eq!(order, [2, 4, 1, 3]);
}

#[test]
fn requests_of_the_lowest_priority_are_preempted_and_their_tokens_are_the_same() {
    let mut driver = Driver::new(EngineConfig {
        num_pages: 12,
        lookahead_tokens: 0,
        ..off()
    });
    let prompts = [[9_u32; 8], [11; 8], [13; 8]];
    for (handle, prompt) in (0..).zip(&prompts) {
        let priority = i32::from(handle == 0);
        driver.submit(Request {
            priority,
            ..request(handle, prompt, 24)
        });
    }
    driver.run();
    let preemptions: Vec<u32> = (0..3)
        .map(|handle| driver.finishes[&handle].stats.preemptions)
        .collect();
    assert!(preemptions[0] == 0 && preemptions[2] > 0, "{preemptions:?}");
    for (handle, prompt) in (0..).zip(&prompts) {
        assert_eq!(
            driver.tokens[&handle],
            reference::decode(&request(handle, prompt, 24)).0
        );
    }
    assert_eq!(
        driver.engine.load().preemptions,
        u64::from(preemptions.iter().sum::<u32>())
    );
}

#[test]
fn cancelled_requests_are_acknowledged_by_the_next_plan_and_free_their_pages() {
    let mut driver = Driver::new(off());
    driver.submit(request(1, &[3; 9], 20));
    driver.step();
    let plan = driver.plan().unwrap();
    driver.engine.cancel(1, None, false);
    driver.engine.cancel(1, Some(1), true);
    driver.engine.cancel(77, None, false);
    driver.commit(&plan);
    assert!(!driver.finishes.contains_key(&1));
    assert!(driver.plan().is_none());
    let finish = &driver.finishes[&1];
    assert_eq!(
        (finish.kind, finish.stats.verify_steps),
        (FinishKind::Cancelled, 1)
    );
    assert_eq!(driver.engine.load().pages_used, 0);
}

#[test]
fn a_request_cancelled_before_its_first_plan_still_ends() {
    let mut driver = Driver::new(off());
    driver.submit(request(1, &[3; 9], 20));
    driver.engine.cancel(1, None, false);
    assert!(driver.plan().is_none());
    assert_eq!(driver.finishes[&1].kind, FinishKind::Cancelled);
    driver.submit(request(1, &[3; 9], 1));
    driver.run();
    assert_eq!(driver.finishes[&1].kind, FinishKind::Length);
}

#[test]
fn deadlines_end_waiting_and_running_requests_on_the_clock_of_plan() {
    let mut driver = Driver::new(EngineConfig {
        max_running: 1,
        ..off()
    });
    driver.submit(Request {
        deadline_s: Some(5.0),
        ..request(1, &[3], 50)
    });
    driver.submit(Request {
        deadline_s: Some(5.0),
        ..request(2, &[3], 50)
    });
    driver.submit(Request {
        deadline_s: Some(6.0),
        ..request(3, &[3], 2)
    });
    driver.now_s = 4.9;
    driver.step();
    assert!(driver.finishes.is_empty());
    driver.now_s = 5.0;
    driver.run();
    let kinds: Vec<FinishKind> = (1..4).map(|handle| driver.finishes[&handle].kind).collect();
    assert_eq!(
        kinds,
        [
            FinishKind::Deadline,
            FinishKind::Deadline,
            FinishKind::Length
        ]
    );
    assert_eq!(driver.finishes[&2].stats.prefill_ns, 0);
    assert_eq!(driver.finishes[&1].stats.decode_ns, 99_999_999);
}

#[test]
fn requests_that_can_never_run_are_refused_with_what_is_allowed() {
    let mut driver = Driver::new(EngineConfig {
        num_pages: 10,
        ..off()
    });
    let mut hot = request(5, &[1], 1);
    hot.sampling.temperature = -1.0;
    let mut broken = request(6, &[1], 1);
    broken.sampling.top_p = f32::NAN;
    let cases = [
        (request(1, &[], 1), "at least 1 token"),
        (request(2, &[1], 100), "over the context of 100 tokens"),
        (
            request(3, &[1; 20], 22),
            "over the 40 tokens the cache holds",
        ),
        (
            request(4, &[1, 40], 1),
            "prompt holds token id 40; allowed: 0 to 39",
        ),
        (hot, "temperature is -1; allowed: 0 to 100"),
        (broken, "top_p is NaN; allowed: above 0, up to 1"),
        (
            Request {
                max_draft_tokens: Some(64),
                ..request(7, &[1], 1)
            },
            "max_draft_tokens is 64; allowed: 0 to 63",
        ),
        (
            Request {
                prediction_ids: vec![99],
                ..request(8, &[1], 1)
            },
            "prediction holds token id 99",
        ),
    ];
    for (request, _) in &cases {
        driver.submit(request.clone());
    }
    driver.submit(request(9, &[1; 20], 21));
    driver.run();
    for (request, message) in &cases {
        let finish = &driver.finishes[&request.handle];
        assert_eq!(finish.kind, FinishKind::Refused);
        assert!(
            finish
                .message
                .as_ref()
                .is_some_and(|given| given.contains(message)),
            "{finish:?}"
        );
    }
    assert_eq!(
        (driver.finishes[&9].kind, driver.tokens[&9].len()),
        (FinishKind::Length, 21)
    );
}

#[test]
fn resumed_requests_that_were_complete_end_without_a_step() {
    let mut driver = Driver::new(off());
    driver.submit(Request {
        emitted_token_ids: vec![4, 5],
        ..request(1, &[3], 2)
    });
    let mut stopped = Request {
        emitted_token_ids: vec![4, 0],
        ..request(2, &[3], 9)
    };
    stopped.ignore_eos = false;
    driver.submit(stopped);
    driver.submit(request(3, &[3], 0));
    assert!(driver.plan().is_none());
    let kinds: Vec<FinishKind> = (1..4).map(|handle| driver.finishes[&handle].kind).collect();
    assert_eq!(
        kinds,
        [FinishKind::Length, FinishKind::Eos, FinishKind::Length]
    );
}

#[test]
fn logits_without_a_finite_greatest_one_fail_that_request_alone() {
    let mut driver = Driver::new(off());
    driver.submit(request(1, &[3], 5));
    driver.submit(request(2, &[4], 5));
    let plan = driver.plan().unwrap();
    let mut values = driver.forward(&plan);
    values[..VOCABULARY].fill(f32::NAN);
    driver.commit_values(&plan, &values);
    assert_eq!(driver.finishes[&1].kind, FinishKind::Failed);
    driver.run();
    assert_eq!(
        (driver.finishes[&2].kind, driver.tokens[&2].len()),
        (FinishKind::Length, 5)
    );
}

#[test]
fn a_failed_forward_ends_the_requests_of_its_plan_with_the_message() {
    let mut driver = Driver::new(EngineConfig {
        max_running: 1,
        ..off()
    });
    driver.submit(request(1, &[3], 5));
    driver.submit(request(2, &[4], 5));
    let plan = driver.plan().unwrap();
    let outputs = driver.engine.fail(plan.plan_id, "no memory", 0.0).unwrap();
    let finish = outputs[0].finish.as_ref().unwrap();
    assert_eq!((outputs.len(), outputs[0].handle), (1, 1));
    assert_eq!(
        (finish.kind, finish.message.as_deref()),
        (FinishKind::Failed, Some("no memory"))
    );
    driver.run();
    assert_eq!(driver.tokens[&2].len(), 5);
}

#[test]
fn plans_are_committed_once_and_in_order() {
    let mut driver = Driver::new(off());
    driver.submit(request(1, &[3], 5));
    let plan = driver.plan().unwrap();
    let commit = |driver: &Driver, plan_id| {
        let values = vec![0.0; STRIDE];
        let verdicts = Verdicts::Logits(LogitRows {
            values: &values,
            num_rows: 1,
            row_stride: STRIDE,
        });
        driver
            .engine
            .commit(plan_id, &verdicts.into(), 1.0, 0.0)
            .map(|_| ())
    };
    let unknown = |given, expected| Err(EngineError::UnknownPlan { given, expected });
    assert_eq!(
        driver.engine.plan(0.0),
        Err(EngineError::PlanInFlight { plan_id: 1 })
    );
    assert_eq!(commit(&driver, plan.plan_id + 1), unknown(2, Some(1)));
    assert_eq!(commit(&driver, plan.plan_id), Ok(()));
    assert_eq!(commit(&driver, plan.plan_id), unknown(1, None));
}

#[test]
fn more_requests_than_may_be_held_are_an_error_until_one_ends() {
    let mut driver = Driver::new(EngineConfig {
        max_held: 8,
        ..off()
    });
    for handle in 0..8 {
        driver.submit(request(handle, &[3], 1));
    }
    let full = driver.engine.submit(request(8, &[3], 1));
    assert_eq!(
        full,
        Err(EngineError::Full {
            what: "requests",
            limit: 8
        })
    );
    let twice = driver.engine.submit(request(7, &[3], 1));
    assert_eq!(twice, Err(EngineError::DuplicateHandle { handle: 7 }));
    assert_eq!(driver.engine.load().waiting, 8);
    driver.run();
    driver.submit(request(8, &[3], 1));
}

#[test]
fn configurations_out_of_range_are_named() {
    let bad = [
        (
            EngineConfig {
                max_running: 600,
                ..config()
            },
            "max_running is 600; allowed: 1 to max_batch_rows, 512",
        ),
        (
            EngineConfig {
                max_draft_tokens: 64,
                ..config()
            },
            "max_draft_tokens is 64; allowed: 0 to 63",
        ),
        (
            EngineConfig {
                eos_token_ids: vec![40],
                ..config()
            },
            "eos_token_ids is 40",
        ),
        (
            EngineConfig {
                max_depth: 0,
                ..config()
            },
            "max_depth is 0",
        ),
        (
            EngineConfig {
                memory_bytes: 9,
                ..config()
            },
            "capacity_bytes is 9",
        ),
    ];
    for (config, message) in bad {
        let error = Engine::new(config).err().map(|error| error.to_string());
        assert!(
            error.as_ref().is_some_and(|error| error.contains(message)),
            "{error:?}"
        );
    }
}

#[test]
fn a_prompt_that_fills_the_cache_runs() {
    let mut driver = Driver::new(EngineConfig {
        num_pages: 5,
        ..off()
    });
    driver.submit(request(1, &[3; 5 * PAGE_SIZE], 1));
    driver.submit(request(2, &[4; 4], 9));
    driver.run();
    assert_eq!((driver.tokens[&1].len(), driver.tokens[&2].len()), (1, 9));
}
