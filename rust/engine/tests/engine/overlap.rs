//! What a helper does while a forward runs.

use std::time::{Duration, Instant};

use crate::support::driver::{Driver, config, request};
use spectrie_engine::EngineConfig;
use spectrie_types::Source;

fn overlapping() -> Driver {
    Driver::new(EngineConfig {
        overlap: true,
        ..config()
    })
}

/// Waits for what another thread does; false when it never comes.
fn comes_true(condition: impl Fn() -> bool) -> bool {
    let end = Instant::now() + Duration::from_secs(20);
    while Instant::now() < end {
        if condition() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}

#[test]
fn text_is_learnt_while_the_next_forward_runs() {
    let put_off = || {
        let mut driver = overlapping();
        driver.submit(request(1, &[3, 4, 5], 20));
        driver.step();
        (driver.engine.load().memory_tokens == 0).then_some(driver)
    };
    // A helper that was at the door learns right behind the commit, before the load is read.
    let mut driver = (0..20)
        .find_map(|_| put_off())
        .expect("each commit learnt by itself");
    let plan = driver.plan().unwrap();
    assert!(comes_true(|| driver.engine.load().memory_tokens >= 3));
    driver.commit(&plan);
}

#[test]
fn requests_are_taken_in_while_a_forward_runs_and_keep_their_order() {
    let mut driver = overlapping();
    driver.submit(request(1, &[3, 4, 5], 30));
    let plan = driver.plan().unwrap();
    // A refusal shows that a request was looked at: its output waits for the commit. It is the first, so that all
    // were looked at once four of them wait.
    driver.submit(request(2, &[3; 200], 2));
    for handle in 3..7 {
        driver.submit(request(handle, &[3, handle as u32], 2));
    }
    assert!(comes_true(|| driver.engine.load().waiting == 4));
    driver.commit(&plan);
    assert!(driver.finishes.contains_key(&2));
    driver.run();
    assert_eq!(driver.finishes.len(), 6);
}

#[test]
fn everything_is_learnt_once_the_engine_is_idle() {
    let taught = |mut driver: Driver| {
        for handle in 1..4 {
            driver.submit(request(handle, &[3, 4, handle as u32], 20));
        }
        driver.run();
        driver.engine.load().memory_tokens
    };
    assert_eq!(taught(overlapping()), taught(Driver::new(config())));
    assert!(taught(overlapping()) >= 3 * 22);
}

#[test]
fn what_the_model_gave_is_drafted_from_though_it_is_learnt_later() {
    let mut driver = overlapping();
    // A forward takes no time here, so what the first requests gave may be learnt when they are over.
    let accepted = (1..50).find(|&handle| {
        driver.submit(request(handle, &[handle as u32, 4, 5], 90));
        driver.run();
        let by_source = driver.finishes[&handle].stats.accepted_by_source;
        by_source[Source::Recycled as usize] > 0
    });
    assert!(accepted.is_some());
}
