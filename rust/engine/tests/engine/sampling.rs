//! What single options of sampling do to a request, and which are refused.

use crate::support::driver::{Driver, config, request};
use crate::support::model::{VOCABULARY, wanted_logits, wanted_rows};
use crate::support::reference;
use spectrie_engine::{BANNED, EngineConfig, Plan, Request, Verdicts};
use spectrie_sampling::{SamplingParameters, TokenLogprobs};
use spectrie_types::FinishKind;

/// A request whose own text foretells it, so that it runs through trees.
fn foretold(handle: u64) -> Request {
    let mut request = request(handle, &[3, 4, 5], 30);
    request.prediction_ids = reference::decode(&request).0;
    request
}

fn refusal(request: Request) -> Option<String> {
    let mut driver = Driver::new(config());
    let handle = request.handle;
    driver.submit(request);
    driver.run();
    let finish = &driver.finishes[&handle];
    assert_eq!(finish.kind, FinishKind::Refused);
    finish.message.clone()
}

#[test]
fn options_out_of_range_are_refused_with_the_value_and_the_range() {
    let typical = |typical_p| Request {
        sampling: SamplingParameters {
            typical_p,
            ..SamplingParameters::default()
        },
        ..request(1, &[1], 5)
    };
    for (value, message) in [
        (0.0, "typical_p is 0; allowed: above 0, up to 1"),
        (1.5, "typical_p is 1.5; allowed: above 0, up to 1"),
        (f32::NAN, "typical_p is NaN; allowed: above 0, up to 1"),
    ] {
        assert_eq!(refusal(typical(value)).as_deref(), Some(message));
    }
    let words = |bad_words| Request {
        bad_words,
        ..request(1, &[1], 5)
    };
    for (bad_words, message) in [
        (
            vec![vec![1], vec![]],
            "bad_words holds a sequence of 0 ids; allowed: 1 to 32",
        ),
        (
            vec![vec![1; 33]],
            "bad_words holds a sequence of 33 ids; allowed: 1 to 32",
        ),
        (
            vec![vec![1]; 65],
            "bad_words holds 65 sequences; allowed: at most 64",
        ),
        (
            vec![vec![1, VOCABULARY as u32]],
            "bad_words holds token id 40; allowed: 0 to 39",
        ),
    ] {
        assert_eq!(refusal(words(bad_words)).as_deref(), Some(message));
    }
    let told = Request {
        logprobs: Some(21),
        ..request(1, &[1], 5)
    };
    let message = "logprobs is 21; allowed: 0 to 20";
    assert_eq!(refusal(told).as_deref(), Some(message));
    let told = Request {
        prompt_logprobs: Some(21),
        ..request(1, &[1], 5)
    };
    let message = "prompt_logprobs is 21; allowed: 0 to 20";
    assert_eq!(refusal(told).as_deref(), Some(message));
}

#[test]
fn a_request_that_bars_every_token_fails_alone_and_says_which_options_did() {
    let mut driver = Driver::new(config());
    let plain = foretold(1);
    let expected = plain.prediction_ids.clone();
    // Its fifth token is the first after which nothing is allowed.
    let fourth = expected[3];
    driver.submit(Request {
        bad_words: (0..VOCABULARY as u32)
            .map(|token| vec![fourth, token])
            .collect(),
        logprobs: Some(0),
        ..foretold(2)
    });
    driver.submit(plain);
    driver.run();
    let finish = &driver.finishes[&2];
    assert_eq!(finish.kind, FinishKind::Failed);
    let message = finish.message.as_ref().unwrap();
    assert!(message.contains("leave no token to sample") && message.contains("bad_words"));
    assert!(!message.contains("min_tokens") && !message.contains("logit_bias"));
    let first = expected.iter().position(|&token| token == fourth).unwrap();
    assert_eq!(driver.tokens[&2], expected[..=first]);
    assert_eq!(driver.logprobs[&2].len(), first + 1);
    assert_eq!(driver.tokens[&1], expected);
}

#[test]
fn a_bad_word_begun_in_an_earlier_attempt_is_not_completed() {
    let whole = request(1, &[3, 4, 5], 30);
    let (output, _) = reference::decode(&whole);
    let resumed = Request {
        emitted_token_ids: output[..2].to_vec(),
        bad_words: vec![output[..3].to_vec()],
        ..whole
    };
    let mut driver = Driver::new(config());
    driver.submit(resumed);
    driver.run();
    assert_eq!(driver.finishes[&1].kind, FinishKind::Length);
    assert_ne!(driver.tokens[&1][0], output[2]);
}

#[test]
fn neither_stop_tokens_nor_the_end_of_sequence_come_before_min_tokens() {
    let free = request(1, &[3, 4, 5], 30);
    let (output, _) = reference::decode(&free);
    let eager = Request {
        stop_token_ids: vec![output[1]],
        ignore_eos: false,
        min_tokens: 10,
        sampling: SamplingParameters {
            logit_bias: vec![(0, 50.0)],
            temperature: 0.0,
            ..SamplingParameters::default()
        },
        ..free
    };
    let mut driver = Driver::new(config());
    driver.submit(eager);
    driver.run();
    let tokens = &driver.tokens[&1];
    assert_eq!(driver.finishes[&1].kind, FinishKind::Eos);
    assert_eq!((tokens.len(), tokens[10]), (11, 0));
    assert!(!tokens[..10].contains(&0) && !tokens[..10].contains(&output[1]));
}

/// A request of 30 prompt tokens that asks for log-probabilities of all.
fn told(handle: u64) -> Request {
    let prompt: Vec<u32> = (0..30).map(|index| 1 + index * 7 % 39).collect();
    Request {
        logprobs: Some(3),
        prompt_logprobs: Some(2),
        ..request(handle, &prompt, 5)
    }
}

/// The reported prompt log-probabilities, and the sampled rows of each chunk.
fn prompt_logprobs(config: EngineConfig) -> (Option<Vec<Option<TokenLogprobs>>>, Vec<i32>) {
    let mut driver = Driver::new(config);
    driver.submit(told(1));
    let plans = driver.run();
    assert_eq!(driver.logprobs[&1].len(), 5);
    let chunks = plans.iter().filter(|plan| plan.request_kind == [0]);
    let sampled = chunks.map(|plan| plan.num_samples() as i32).collect();
    (driver.prompt_logprobs.remove(&1), sampled)
}

#[test]
fn log_probabilities_of_the_prompt_are_the_same_however_it_is_chunked() {
    let (whole, sampled) = prompt_logprobs(config());
    assert_eq!(sampled, [30]);
    let told = whole.as_ref().unwrap();
    assert_eq!((told.len(), &told[0]), (30, &None));
    for chunk_tokens in [1, 7, 29] {
        let (chunked, sampled) = prompt_logprobs(EngineConfig {
            chunk_tokens,
            ..config()
        });
        assert_eq!(chunked, whole);
        assert_eq!(sampled.iter().sum::<i32>(), 30);
    }
}

#[test]
fn no_step_computes_logits_of_more_prompt_rows_than_memory_holds() {
    let mut driver = Driver::new(EngineConfig {
        chunk_tokens: 4096,
        max_batch_rows: 4096,
        num_pages: 1000,
        max_context: 1000,
        ..config()
    });
    let prompt = vec![3; 700];
    for handle in 1..=2 {
        driver.submit(Request {
            prompt_logprobs: Some(0),
            ..request(handle, &prompt, 5)
        });
    }
    driver.submit(request(3, &prompt, 5));
    let plans = driver.run();
    let sampled: Vec<usize> = plans.iter().map(Plan::num_samples).collect();
    // Beside them, those of trees.
    assert_eq!(sampled[0], 512);
    assert!(sampled.iter().all(|&rows| rows < 600), "{sampled:?}");
    for handle in 1..=2 {
        let told = &driver.prompt_logprobs[&handle];
        assert_eq!(told.len(), 700);
    }
}

#[test]
fn log_probabilities_of_the_prompt_are_told_once_though_the_request_is_computed_again() {
    let mut driver = Driver::new(EngineConfig {
        num_pages: 11,
        lookahead_tokens: 0,
        ..config()
    });
    // The first to come is never preempted.
    driver.submit(Request {
        priority: 1,
        max_tokens: 36,
        ..request(2, &[7], 1)
    });
    driver.submit(Request {
        max_tokens: 10,
        ..told(1)
    });
    while driver.step().is_some() {
        if driver
            .tokens
            .get(&1)
            .is_some_and(|tokens| !tokens.is_empty())
        {
            assert!(driver.prompt_logprobs.contains_key(&1));
        }
    }
    assert!(driver.finishes[&1].stats.preemptions > 0);
    assert_eq!(driver.prompt_logprobs[&1].len(), 30);
    assert_eq!(driver.logprobs[&1].len(), 10);
}

#[test]
fn token_ids_alone_are_refused_where_log_probabilities_are_wanted() {
    let options: [fn(&mut Request); 3] = [
        |request| request.logprobs = Some(0),
        |request| request.prompt_logprobs = Some(0),
        |request| request.bad_words = vec![vec![1, 2]],
    ];
    let mut wanted = Vec::new();
    for option in options {
        let mut driver = Driver::new(config());
        let mut asks = request(1, &[5, 6], 4);
        option(&mut asks);
        driver.submit(asks);
        let plan = driver.plan().unwrap();
        assert!(!plan.is_greedy);
        let tokens = vec![1; plan.num_samples()];
        let commit = |verdicts: Verdicts<'_>| {
            let results = verdicts.into();
            driver.engine.commit(plan.plan_id, &results, 1.0, 0.0)
        };
        assert!(commit(Verdicts::Tokens(&tokens)).is_err());
        let is_drawable = plan.is_drawable();
        assert_eq!(commit(Verdicts::drawn(&tokens)).is_ok(), is_drawable);
        wanted.push(is_drawable);
    }
    assert_eq!(wanted, [false, false, true]);
}

#[test]
fn beside_drawn_tokens_rows_that_want_log_probabilities_bring_their_logits() {
    let mut driver = Driver::new(config());
    driver.submit(request(1, &[5, 6], 1));
    driver.submit(Request {
        logprobs: Some(2),
        ..request(2, &[5, 7], 1)
    });
    driver.submit(request(3, &[5, 8], 1));
    let plan = driver.plan().unwrap();
    let asking = plan.request_handle.iter().position(|&one| one == 2);
    assert_eq!(plan.logit_samples, [asking.unwrap() as i32]);
    assert!(plan.is_drawable() && !plan.is_greedy);
    let values = driver.forward(&plan);
    let wanted = wanted_logits(&plan, &values);
    let commit = |num_rows| {
        let results = Verdicts::Drawn {
            tokens: &[9, 9, 9],
            logits: wanted_rows(&wanted[..num_rows * VOCABULARY]),
        };
        driver
            .engine
            .commit(plan.plan_id, &results.into(), 1.0, 0.0)
    };
    let error = commit(0).unwrap_err().to_string();
    assert!(error.contains("number of rows is 0; allowed: 1"), "{error}");
    for output in commit(1).unwrap() {
        let [token] = output.token_ids[..] else {
            panic!("{output:?}")
        };
        if output.handle == 2 {
            let likeliest = (0..VOCABULARY).max_by(|&a, &b| wanted[a].total_cmp(&wanted[b]));
            let told = &output.logprobs.unwrap()[0];
            assert_eq!((token as usize, told.token), (likeliest.unwrap(), token));
            assert_eq!(told.top.len(), 2);
        } else {
            assert_eq!((token, output.logprobs), (9, None));
        }
    }
}

#[test]
fn a_drawn_token_is_taken_and_what_is_below_zero_ends_the_request() {
    for (drawn, message) in [
        (7, None),
        (BANNED, Some("bad_words")),
        (-1, Some("no finite logit")),
    ] {
        let mut driver = Driver::new(config());
        driver.submit(Request {
            bad_words: vec![vec![1, 2]],
            ..request(1, &[5, 6], 1)
        });
        let plan = driver.plan().unwrap();
        assert_eq!(plan.request_handle, [1]);
        let outputs = driver
            .engine
            .commit(plan.plan_id, &Verdicts::drawn(&[drawn]).into(), 1.0, 0.0)
            .unwrap();
        let finish = outputs[0].finish.as_ref().unwrap();
        match message {
            None => assert_eq!(outputs[0].token_ids, [7]),
            Some(named) => {
                assert!(
                    finish.message.as_ref().unwrap().contains(named),
                    "{finish:?}"
                );
            }
        }
    }
}
