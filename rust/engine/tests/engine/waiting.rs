//! The bound on the memory of requests that wait, and what a request owns before it runs.

use crate::support::driver::{Driver, config, request};
use spectrie_engine::{EngineConfig, EngineError, Request};

/// One request runs at a time, and those that wait may have 100 token ids.
fn narrow() -> EngineConfig {
    EngineConfig {
        max_running: 1,
        waiting_bytes: 400,
        ..config()
    }
}

#[test]
fn prompts_that_wait_have_a_bound_in_bytes() {
    let mut driver = Driver::new(narrow());
    driver.submit(request(1, &[3; 40], 2));
    driver.step();
    assert_eq!(driver.engine.load().waiting_bytes, 0, "it runs");
    driver.submit(request(2, &[4; 40], 2));
    driver.submit(Request {
        prediction_ids: vec![5; 20],
        ..request(3, &[4; 40], 2)
    });
    let refused = driver.engine.submit(request(4, &[4], 2));
    let error = EngineError::NoWaitingRoom {
        given: 4,
        waiting: 400,
        limit: 400,
    };
    assert_eq!(refused, Err(error.clone()));
    assert_eq!(
        error.to_string(),
        "the request has 4 bytes of token ids and 400 bytes wait already; allowed: 400 bytes \
         (--waiting-memory); send it again later, or start more workers or one with a larger bound"
    );
    assert_eq!(driver.engine.load().waiting_bytes, 400);
    driver.run();
    assert_eq!(driver.engine.load().waiting_bytes, 0);
    driver.submit(request(4, &[4], 2));
    driver.run();
    assert_eq!(driver.finishes.len(), 4);
}

#[test]
fn tenant_that_fills_the_room_keeps_no_other_out() {
    let mut driver = Driver::new(narrow());
    let of = |tenant: &str, handle, num_ids: usize| Request {
        tenant: Some(tenant.into()),
        ..request(handle, &vec![3; num_ids], 2)
    };
    driver.submit(of("ann", 1, 40));
    driver.step();
    driver.submit(of("ann", 2, 100));
    assert!(driver.engine.submit(of("ann", 3, 1)).is_err());
    // Half of 100 ids is bob's, whatever ann has.
    driver.submit(of("bob", 4, 40));
    driver.submit(of("bob", 5, 10));
    let refused = driver.engine.submit(of("bob", 6, 1));
    assert!(matches!(refused, Err(EngineError::NoWaitingRoom { .. })));
    driver.run();
    assert_eq!(driver.finishes.len(), 4);
    driver.submit(of("bob", 6, 40));
    driver.run();
}

#[test]
fn one_request_may_always_wait_however_long_it_is() {
    let mut driver = Driver::new(EngineConfig {
        waiting_bytes: 0,
        ..narrow()
    });
    driver.submit(request(1, &[3; 60], 2));
    let refused = driver.engine.submit(request(2, &[3], 2));
    assert!(matches!(refused, Err(EngineError::NoWaitingRoom { .. })));
    driver.run();
    assert_eq!(driver.tokens[&1].len(), 2);
}

#[test]
fn a_request_that_ends_while_it_waits_leaves_its_room_to_others() {
    let mut driver = Driver::new(narrow());
    driver.submit(request(1, &[3; 40], 20));
    driver.step();
    driver.submit(request(2, &[4; 60], 2));
    driver.step();
    assert_eq!(driver.engine.load().waiting_bytes, 240);
    driver.engine.cancel(2, None, false);
    driver.step();
    assert_eq!(driver.engine.load().waiting_bytes, 0);
}

#[test]
fn a_request_that_waits_owns_no_draft_memory() {
    let mut driver = Driver::new(EngineConfig {
        waiting_bytes: 1 << 20,
        ..narrow()
    });
    driver.submit(request(1, &[3; 40], 20));
    (0..3).for_each(|_| drop(driver.step()));
    let running = driver.engine.load().memory_bytes;
    assert!(running > 0, "the index of its text");
    for handle in 2..8 {
        driver.submit(Request {
            prediction_ids: vec![5; 40],
            ..request(handle, &[4; 40], 3)
        });
    }
    driver.plan();
    assert_eq!(driver.engine.load().memory_bytes, running);
}

#[test]
fn what_draft_memory_drops_is_reported_by_reason() {
    let mut driver = Driver::new(EngineConfig {
        memory_bytes: 64 << 10,
        max_namespaces: 2,
        ..config()
    });
    let text: Vec<u32> = (0..400).map(|index| index % 38 + 1).collect();
    for round in 0..20 {
        driver.engine.learn("a", &text).unwrap();
        driver.engine.learn(["b", "c"][round % 2], &text).unwrap();
    }
    driver.run();
    let load = driver.engine.load();
    let evicted: u64 = load.dropped_tokens[..3].iter().sum();
    assert_eq!(load.evicted_tokens, evicted);
    assert_eq!(load.dropped_tokens.iter().sum::<u64>(), evicted);
    assert!(load.dropped_tokens[2] >= 18 * 400, "namespaces pushed out");
    assert_eq!(load.memory_tokens + evicted, 40 * 400);
}
