//! What runs while one request waits for its pages to come together.

use std::collections::HashMap;

use crate::support::driver::{Driver, config, request};
use spectrie_engine::{EngineConfig, Request};
use spectrie_types::SpeculationMode;

fn of_tenant(tenant: &str, request: Request) -> Request {
    Request {
        tenant: Some(tenant.into()),
        ..request
    }
}

fn off() -> EngineConfig {
    EngineConfig {
        speculation: SpeculationMode::Off,
        lookahead_tokens: 4,
        ..config()
    }
}

#[test]
fn small_requests_of_other_tenants_do_not_wait_behind_one_that_does_not_fit() {
    let mut driver = Driver::new(off());
    // It takes three fifths of the pages, and long.
    driver.submit(of_tenant("long", request(1, &[1; 20], 80)));
    driver.submit(of_tenant("long", request(2, &[2; 20], 60)));
    driver.submit(of_tenant("long", request(3, &[3; 20], 60)));
    (0..5).for_each(|_| drop(driver.step()));
    let large: Vec<u32> = (0..90).map(|id| id % 39 + 1).collect();
    driver.submit(of_tenant("large", request(4, &large, 5)));
    driver.submit(of_tenant("large", request(5, &large[..89], 5)));
    let mut sent = HashMap::new();
    let mut waits = Vec::new();
    for step in 0_usize..400 {
        if step % 4 == 0 && step < 60 {
            let handle = 100 + step as u64;
            sent.insert(handle, step);
            driver.submit(of_tenant("small", request(handle, &[9; 5], 3)));
        }
        if driver.step().is_none() {
            break;
        }
        for (&handle, &since) in &sent {
            if driver.finishes.contains_key(&handle) {
                waits.push(step - since);
            }
        }
        sent.retain(|handle, _| !driver.finishes.contains_key(handle));
    }
    assert_eq!((waits.len(), driver.finishes.len()), (15, 20));
    assert!(waits.iter().all(|&steps| steps <= 8), "{waits:?}");
}

/// Two long requests run in a fifth of the pages.
fn crowded() -> Driver {
    let mut driver = Driver::new(EngineConfig {
        num_pages: 250,
        max_context: 900,
        ..off()
    });
    for handle in [1, 2] {
        let prompt = [handle as u32; 100];
        driver.submit(of_tenant("long", request(handle, &prompt, 200)));
    }
    (0..5).for_each(|_| drop(driver.step()));
    driver
}

/// Takes four fifths of the pages. No other begins like it.
fn large(handle: u64) -> Request {
    let id = handle as u32;
    let rest = (1..800).map(|index| (index + id / 39) % 39 + 1);
    let prompt: Vec<u32> = std::iter::once(id % 39 + 1).chain(rest).collect();
    of_tenant(&format!("large {handle}"), request(handle, &prompt, 5))
}

fn small(handle: u64) -> Request {
    request(handle, &[handle as u32 % 39 + 1; 5], 3)
}

#[test]
fn a_small_request_does_not_wait_behind_however_many_tenants_whose_requests_do_not_fit() {
    for num_large in [64, 65, 66, 150] {
        let mut driver = crowded();
        (100..100 + num_large).for_each(|handle| driver.submit(large(handle)));
        driver.submit(of_tenant("small", small(10)));
        // Each step looks at 16 of those that it does not look at in order.
        let num_steps = (num_large - 64).div_ceil(16) + 4;
        for _ in 0..num_steps {
            driver.step();
        }
        let ended: Vec<u64> = driver.finishes.keys().copied().collect();
        assert_eq!(ended, [10], "{num_large}");
    }
}

#[test]
fn all_tenants_are_looked_at_in_turn() {
    let mut driver = crowded();
    let is_small = |handle: u64| handle % 29 == 5;
    for handle in 100..300 {
        driver.submit(if is_small(handle) {
            of_tenant(&format!("small {handle}"), small(handle))
        } else {
            large(handle)
        });
    }
    (0..6).for_each(|_| drop(driver.step()));
    // Those come behind all others, when others were looked at by turns.
    for handle in [11, 12] {
        driver.submit(of_tenant("late", small(handle)));
    }
    (0..34).for_each(|_| drop(driver.step()));
    let mut ended: Vec<u64> = driver.finishes.keys().copied().collect();
    ended.sort_unstable();
    let small = (100..300).filter(|&handle| is_small(handle));
    assert_eq!(ended, [11, 12].into_iter().chain(small).collect::<Vec<_>>());
}
