//! Requests of which a drafter that sleeps beside many keeps nothing.

use spectrie_engine::{LEFT_OUT, Plan, Request};

use crate::drafters::engine;
use crate::support::driver::{Driver, request};
use crate::support::head::{Head, Script};

/// A long request whose text repeats nothing.
fn noisy(handle: u64, max_tokens: u32) -> Request {
    let mut one = request(handle, &[handle as u32, 4, 9 + handle as u32], max_tokens);
    one.sampling.temperature = 2.0;
    one.choice_seed = handle;
    one
}

/// Requests of a plan that are left out.
pub(crate) fn num_left_out(plan: &Plan) -> usize {
    let features = plan.request_feature.iter();
    features.filter(|&&feature| feature == LEFT_OUT).count()
}

#[test]
fn while_it_sleeps_it_follows_four_of_many_and_new_ones_once_it_wakes() {
    let (mut driver, mut alone) = (engine(Some(0.05)), engine(None));
    let mut head = Head::new(Script::Wrong);
    let steps = |driver: &mut Driver, head: &mut Head, count: usize| {
        let plans = (0..count).filter_map(|_| {
            head.ask(&driver.engine, &mut driver.model, 0.0, 0.05);
            driver.step()
        });
        plans.collect::<Vec<Plan>>()
    };
    for one in (1..=8).map(|handle| noisy(handle, 1200)) {
        driver.submit(one.clone());
        alone.submit(one.clone());
        head.requests.push(one);
    }
    let begun = steps(&mut driver, &mut head, 20);
    assert!(begun.iter().all(|plan| num_left_out(plan) == 0));
    steps(&mut driver, &mut head, 160);
    let asleep = steps(&mut driver, &mut head, 100);
    assert!(asleep.iter().all(|plan| num_left_out(plan) == 4));
    // It is right now, and what begins is of use to it again.
    head.script = Script::Right;
    let woken = steps(&mut driver, &mut head, 900);
    assert!(woken.iter().all(|plan| num_left_out(plan) <= 4));
    for one in (21..=28).map(|handle| noisy(handle, 1200)) {
        driver.submit(one.clone());
        alone.submit(one.clone());
        head.requests.push(one);
    }
    let awake = steps(&mut driver, &mut head, 64);
    let left: Vec<usize> = awake.iter().map(num_left_out).collect();
    assert!(left.iter().all(|&count| count == 0), "{left:?}");
    while driver.step().is_some() {}
    while alone.step().is_some() {}
    for handle in (1..=8).chain(21..=28) {
        assert_eq!(driver.tokens[&handle], alone.tokens[&handle], "{handle}");
    }
}

#[test]
fn where_upkeep_is_the_same_for_any_rows_none_is_left_out() {
    let mut driver = engine(Some(0.3));
    driver.engine.set_drafter_upkeep(0.1, false).unwrap();
    let mut head = Head::new(Script::Wrong);
    for one in (1..=8).map(|handle| noisy(handle, 400)) {
        driver.submit(one.clone());
        head.requests.push(one);
    }
    let mut plans = Vec::new();
    loop {
        head.ask(&driver.engine, &mut driver.model, driver.now_s, 0.3);
        match driver.step() {
            Some(plan) => plans.push(plan),
            None => break,
        }
    }
    assert!(plans.len() > 200);
    assert!(plans.iter().all(|plan| num_left_out(plan) == 0));
}
