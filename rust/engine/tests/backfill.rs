//! What runs while one request waits for its pages to come together.

#[cfg(test)]
mod support;

use std::collections::HashMap;

use spectrie_engine::{EngineConfig, Request};
use spectrie_types::SpeculationMode;
use support::driver::{Driver, config, request};

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
