//! A tenant of which nothing runs has a turn soon, however long the answers of others are.

use crate::support::driver::{Driver, config, request};
use crate::support::reference;
use spectrie_engine::{EngineConfig, Request};
use spectrie_types::SpeculationMode;

/// Of each step, and how many make a second.
const STEP_S: f64 = 0.05;
const SECOND: usize = 20;
const PROMPT: [u32; 4] = [3, 4, 5, 6];

fn engine(max_running: usize, num_pages: usize) -> Driver {
    Driver::new(EngineConfig {
        speculation: SpeculationMode::Off,
        max_running,
        num_pages,
        max_context: 700,
        max_batch_rows: 64,
        chunk_tokens: 32,
        ..config()
    })
}

fn of_tenant(tenant: &str, handle: u64, tokens: u32) -> Request {
    let mut prompt = PROMPT.to_vec();
    prompt.push(handle as u32);
    Request {
        tenant: Some(tenant.into()),
        ..request(handle, &prompt, tokens)
    }
}

/// Steps until the request of this handle has ended.
fn steps_until_end(driver: &mut Driver, handle: u64) -> usize {
    let mut count = 0;
    while !driver.finishes.contains_key(&handle) {
        assert!(driver.step().is_some());
        driver.now_s += STEP_S;
        count += 1;
    }
    count
}

fn run_to_the_end(driver: &mut Driver) {
    while driver.step().is_some() {
        driver.now_s += STEP_S;
    }
}

fn run_on(driver: &mut Driver, num_steps: usize) {
    for _ in 0..num_steps {
        assert!(driver.step().is_some());
        driver.now_s += STEP_S;
    }
}

/// Steps until another tenant has its four tokens beside one that keeps up eight answers of so many, and
/// how often each of these was sent back.
fn beside_a_greedy_one(num_tokens: u32, max_running: usize, num_pages: usize) -> (usize, Vec<u32>) {
    let mut driver = engine(max_running, num_pages);
    let mut asked: Vec<Request> = (1..9)
        .map(|handle| of_tenant("greedy", handle, num_tokens))
        .collect();
    asked.push(of_tenant("other", 9, 4));
    for one in &asked[..8] {
        driver.submit(one.clone());
    }
    run_on(&mut driver, 100);
    driver.submit(asked[8].clone());
    let num_steps = steps_until_end(&mut driver, 9);
    run_to_the_end(&mut driver);
    for one in &asked {
        assert_eq!(driver.tokens[&one.handle], reference::decode(one).0);
    }
    let sent_back = (1..10).map(|handle| driver.finishes[&handle].stats.preemptions);
    (num_steps, sent_back.collect())
}

#[test]
fn it_waits_a_second_for_a_place_whatever_the_length_of_other_answers() {
    for num_tokens in [200, 600] {
        let (num_steps, sent_back) = beside_a_greedy_one(num_tokens, 4, 1000);
        assert!(num_steps <= SECOND + 6, "{num_tokens}: {num_steps} steps");
        // One goes, not the first of all.
        assert_eq!(sent_back, [0, 0, 0, 1, 0, 0, 0, 0, 0], "{num_tokens}");
    }
}

#[test]
fn it_waits_a_second_for_pages_whatever_the_length_of_other_answers() {
    for num_tokens in [300, 600] {
        // Two of them take it all after a hundred steps.
        let (num_steps, sent_back) = beside_a_greedy_one(num_tokens, 8, 180);
        assert!(num_steps <= SECOND + 6, "{num_tokens}: {num_steps} steps");
        assert_eq!((sent_back[0], sent_back[8]), (0, 0), "{num_tokens}");
    }
}

#[test]
fn who_has_something_running_takes_nothing_from_others() {
    let mut driver = engine(4, 1000);
    for handle in 1..4 {
        driver.submit(of_tenant("greedy", handle, 200));
    }
    driver.submit(of_tenant("other", 4, 200));
    driver.submit(of_tenant("other", 5, 4));
    run_to_the_end(&mut driver);
    let sent_back = (1..6).map(|handle| driver.finishes[&handle].stats.preemptions);
    assert_eq!(sent_back.sum::<u32>(), 0);
}

#[test]
fn nobody_with_one_request_is_sent_back_for_another_with_one() {
    let mut driver = engine(4, 1000);
    for handle in 1..=8 {
        driver.submit(of_tenant(&format!("tenant-{handle}"), handle, 200));
    }
    run_to_the_end(&mut driver);
    let sent_back = (1..9).map(|handle| driver.finishes[&handle].stats.preemptions);
    assert_eq!(sent_back.sum::<u32>(), 0);
}

#[test]
fn parts_of_a_namespace_are_one_tenant() {
    let mut driver = engine(4, 1000);
    let in_namespace = |handle: u64, namespace: &str, num_tokens| Request {
        tenant: None,
        namespace: namespace.into(),
        ..of_tenant("", handle, num_tokens)
    };
    for handle in 1..=4 {
        driver.submit(in_namespace(handle, &format!("greedy/{handle}"), 600));
    }
    run_on(&mut driver, 20);
    driver.submit(in_namespace(5, "other", 4));
    assert!(steps_until_end(&mut driver, 5) <= SECOND + 6);
}

#[test]
fn who_goes_back_in_vain_goes_once() {
    // The first takes two thirds of the pages and is never sent back; the second is, and there is no room even so.
    let mut driver = engine(8, 180);
    let long = |handle: u64, tenant: &str, num_prompt: u32, num_tokens| Request {
        tenant: Some(tenant.into()),
        ..request(
            handle,
            &vec![handle as u32 + 2; num_prompt as usize],
            num_tokens,
        )
    };
    driver.submit(long(1, "greedy", 470, 200));
    driver.submit(long(2, "greedy", 36, 150));
    run_on(&mut driver, 25);
    driver.submit(long(3, "other", 200, 4));
    run_on(&mut driver, 100);
    assert!(!driver.finishes.contains_key(&3));
    run_to_the_end(&mut driver);
    assert_eq!(driver.finishes[&1].stats.preemptions, 0);
    assert!(
        driver.finishes[&2].stats.preemptions <= 3,
        "{}",
        driver.finishes[&2].stats.preemptions
    );
}

#[test]
fn one_with_something_running_is_no_obstacle() {
    let mut driver = engine(4, 1000);
    for handle in 1..4 {
        driver.submit(of_tenant("greedy", handle, 600));
    }
    driver.submit(of_tenant("busy", 4, 600));
    run_on(&mut driver, 20);
    driver.submit(of_tenant("busy", 5, 600));
    run_on(&mut driver, 5);
    driver.submit(of_tenant("other", 9, 4));
    let num_steps = steps_until_end(&mut driver, 9);
    assert!(num_steps <= SECOND + 6, "{num_steps} steps");
}
