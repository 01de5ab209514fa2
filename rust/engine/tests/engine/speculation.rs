//! What drafts do to steps, pages, memory and counts; that they do nothing to tokens is in
//! `exactness.rs`.

use crate::support::driver::{Driver, config, num_drafts, request};
use crate::support::reference;
use spectrie_engine::{CostShape, EngineConfig, Request};
use spectrie_types::{FinishKind, Recycle, SpeculationMode};

/// Draft nodes sent while a driver runs to its end.
fn drafted(driver: &mut Driver) -> i32 {
    driver.run().iter().map(num_drafts).sum()
}

/// A request whose output its prediction foretells.
fn foretold(handle: u64) -> Request {
    let mut request = request(handle, &[3, 4, 5], 30);
    request.prediction_ids = reference::decode(&request).0;
    request
}

#[test]
fn a_right_prediction_is_accepted_in_few_steps_and_counted() {
    let mut driver = Driver::new(config());
    driver.submit(foretold(1));
    let num_steps = driver.run().len();
    let stats = &driver.finishes[&1].stats;
    assert!(num_steps < 10, "{num_steps} steps for 30 tokens");
    assert_eq!(stats.accepted_prediction_tokens, 30);
    assert_eq!(stats.verify_steps as usize, num_steps - 1);
    assert!(stats.accepted_by_source[2] > 20);
    assert_eq!(
        driver.sources[&1]
            .iter()
            .map(|&source| u32::from(source == 2))
            .sum::<u32>(),
        stats.accepted_by_source[2]
    );
}

#[test]
fn the_prediction_is_counted_alike_without_drafts() {
    let mut driver = Driver::new(EngineConfig {
        speculation: SpeculationMode::Off,
        ..config()
    });
    driver.submit(Request {
        speculation: Some(SpeculationMode::Auto),
        ..foretold(1)
    });
    assert_eq!(drafted(&mut driver), 0);
    assert_eq!(driver.finishes[&1].stats.accepted_prediction_tokens, 30);
}

#[test]
fn caps_and_modes_of_the_request_hold() {
    for (mode, cap, allowed) in [
        (Some(SpeculationMode::Off), None, 0),
        (None, Some(0), 0),
        (None, Some(3), 3),
        (Some(SpeculationMode::Prob), Some(2), 2),
        (Some(SpeculationMode::Tiers), Some(2), 2),
        // Three tiers of a few requests, of which the middle one is the first.
        (Some(SpeculationMode::Tiers), None, 3),
    ] {
        let mut driver = Driver::new(config());
        driver.submit(Request {
            speculation: mode,
            max_draft_tokens: cap,
            ..foretold(1)
        });
        let most = driver.run().iter().map(num_drafts).max();
        assert_eq!(most, Some(allowed), "{mode:?} {cap:?}");
    }
}

#[test]
fn drafts_never_cause_a_preemption() {
    let small = EngineConfig {
        num_pages: 17,
        ..config()
    };
    let run = |speculation| {
        let mut driver = Driver::new(EngineConfig {
            speculation,
            ..small.clone()
        });
        for handle in 1..3 {
            driver.submit(foretold(handle));
        }
        let drafts = drafted(&mut driver);
        (drafts, driver.engine.load().preemptions)
    };
    assert_eq!(run(SpeculationMode::Off), (0, 0));
    let (drafts, preemptions) = run(SpeculationMode::Prob);
    assert!(drafts > 0 && preemptions == 0);
}

#[test]
fn dear_rows_buy_no_drafts_and_cheap_rows_do() {
    let run = |milliseconds: [f64; 2]| {
        let mut driver = Driver::new(EngineConfig {
            max_draft_tokens: 8,
            ..config()
        });
        driver
            .engine
            .set_costs(&[1, 2], &milliseconds, CostShape::default())
            .unwrap();
        let mut request = foretold(1);
        request.max_tokens = 6;
        driver.submit(request);
        drafted(&mut driver)
    };
    assert_eq!(run([1.0, 2.9]), 0);
    assert!(run([1.0, 1.01]) > 0);
}

#[test]
fn holdout_steps_send_no_drafts() {
    let mut driver = Driver::new(EngineConfig {
        holdout_every: 1,
        ..config()
    });
    driver.submit(foretold(1));
    assert_eq!(drafted(&mut driver), 0);
    let mut driver = Driver::new(EngineConfig {
        holdout_every: 2,
        max_draft_tokens: 1,
        ..config()
    });
    driver.submit(foretold(1));
    let plans = driver.run();
    let empty = plans.iter().filter(|plan| num_drafts(plan) == 0).count();
    assert!(
        empty > plans.len() / 5 && empty < plans.len() * 4 / 5,
        "{empty} of {}",
        plans.len()
    );
}

/// Accepted tokens of a second, equal request, after `teach` had its way with the first.
fn accepted_after(teach: impl Fn(&mut Driver)) -> u32 {
    let mut driver = Driver::new(config());
    teach(&mut driver);
    driver.submit(request(2, &[3, 4, 5], 20));
    driver.run();
    driver.finishes[&2].stats.accepted_by_source[4]
}

#[test]
fn finished_requests_teach_their_namespace_unless_they_may_not() {
    let first = || request(1, &[3, 4, 5], 20);
    let teach = |request: Request| {
        accepted_after(move |driver| {
            driver.submit(request.clone());
            driver.run();
        })
    };
    let none = accepted_after(|_| ());
    assert!(teach(first()) >= none + 10);
    assert_eq!(
        teach(Request {
            learn: false,
            ..first()
        }),
        none
    );
    assert_eq!(
        teach(Request {
            namespace: "other".into(),
            ..first()
        }),
        none
    );
}

#[test]
fn cancelled_requests_teach_only_what_is_kept_of_a_good_end() {
    let cancel = |keep, finished| {
        accepted_after(move |driver| {
            driver.submit(request(1, &[3, 4, 5], 40));
            while driver.tokens.get(&1).is_none_or(|tokens| tokens.len() < 20) {
                driver.step();
            }
            driver.engine.cancel(1, keep, finished);
            driver.run();
            assert_eq!(driver.finishes[&1].kind, FinishKind::Cancelled);
        })
    };
    let none = cancel(None, false);
    assert_eq!(cancel(Some(0), true), none);
    assert!(cancel(None, true) >= none + 9);
    assert!(cancel(Some(5), true) < cancel(None, true));
}

#[test]
fn statistics_of_a_cancelled_request_cover_what_is_kept() {
    let mut driver = Driver::new(config());
    driver.submit(foretold(1));
    while driver.tokens.get(&1).is_none_or(|tokens| tokens.len() < 12) {
        driver.step();
    }
    driver.engine.cancel(1, Some(7), true);
    driver.run();
    let stats = &driver.finishes[&1].stats;
    assert_eq!(stats.verify_steps + stats.accepted_tokens, 6);
    assert_eq!(stats.accepted_prediction_tokens, 7);
}

#[test]
fn what_the_model_gave_after_each_row_is_drafted_from_where_it_is_wanted() {
    let recycled = |recycle, namespace: &str, learn| {
        let mut driver = Driver::new(EngineConfig {
            recycle,
            ..config()
        });
        driver.submit(Request {
            learn,
            ..request(1, &[3, 4, 5], 90)
        });
        driver.run();
        driver.submit(Request {
            namespace: namespace.into(),
            ..request(2, &[9, 4, 5], 20)
        });
        driver.run();
        let accepted = |handle| driver.finishes[&handle].stats.accepted_by_source[6];
        (accepted(1), accepted(2))
    };
    assert_eq!(recycled(Recycle::Off, "default", true), (0, 0));
    let cold = recycled(Recycle::Decode, "other", true);
    assert!(cold.0 > 0, "{cold:?}");
    assert_eq!(recycled(Recycle::Decode, "default", false), cold);
    assert!(recycled(Recycle::All, "default", true).0 > 0);
}

#[test]
fn text_of_other_workers_is_learnt() {
    let accepted = accepted_after(|driver| {
        let first = request(1, &[3, 4, 5], 20);
        let text = [first.prompt_ids.clone(), reference::decode(&first).0].concat();
        driver.engine.learn("default", &text).unwrap();
    });
    assert!(accepted >= 5 + accepted_after(|_| ()));
    assert!(
        Driver::new(config())
            .engine
            .learn("default", &[40])
            .is_err()
    );
}

#[test]
fn steps_and_questions_to_memory_are_counted() {
    let mut driver = Driver::new(config());
    let first = request(1, &[3, 4, 5], 20);
    let text = [first.prompt_ids.clone(), reference::decode(&first).0].concat();
    driver.engine.learn("default", &text).unwrap();
    assert_eq!(driver.engine.load().inserted_tokens, text.len() as u64);
    driver.submit(first);
    let plans = driver.run();
    let load = driver.engine.load();
    assert!(load.memory_hits > 0, "{load:?}");
    assert!(load.memory_hits <= load.memory_lookups, "{load:?}");
    assert_eq!(load.memory_namespaces, 1);
    let count = |times: spectrie_types::Histogram| times.counts().iter().sum::<u64>();
    assert_eq!(count(load.step_times), plans.len() as u64);
    let verified = plans.iter().filter(|plan| num_drafts(plan) > 0).count();
    assert_eq!(count(load.verify_times), verified as u64);
    assert!(verified > 0 && verified < plans.len());
    assert_eq!(load.tree_nodes.sum() as u64, load.drafted_tokens);
}
