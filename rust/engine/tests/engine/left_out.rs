//! Requests of which a drafter that sleeps beside many keeps nothing.

use spectrie_engine::{DrafterInfo, LEFT_OUT, Plan, Request};
use spectrie_types::SpeculationMode;

use crate::drafters::engine;
use crate::support::driver::{Driver, request};
use crate::support::head::{Head, Script, drafter};

/// A long request whose text repeats nothing.
fn noisy(handle: u64, max_tokens: u32) -> Request {
    let mut one = request(handle, &[handle as u32, 4, 9 + handle as u32], max_tokens);
    one.sampling.temperature = 2.0;
    one.choice_seed = handle;
    one
}

/// The plans of so many steps, each of which asks the drafter what the engine would.
fn steps(driver: &mut Driver, head: &mut Head, count: usize) -> Vec<Plan> {
    let plans = (0..count).filter_map(|_| {
        head.ask(&driver.engine, &mut driver.model, 0.0, 0.05);
        driver.step()
    });
    plans.collect()
}

/// Requests of a plan that are left out.
pub(crate) fn num_left_out(plan: &Plan) -> usize {
    let features = plan.request_feature.iter();
    features.filter(|&&feature| feature == LEFT_OUT).count()
}

#[test]
fn while_it_sleeps_it_follows_four_of_many() {
    let (mut driver, mut alone) = (engine(Some(0.05)), engine(None));
    let mut head = Head::new(Script::Wrong);
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
    // It is right now.
    head.script = Script::Right;
    let plans = steps(&mut driver, &mut head, 1200);
    assert!(plans.iter().all(|plan| num_left_out(plan) <= 4));
    while driver.step().is_some() {}
    while alone.step().is_some() {}
    for handle in 1..=8 {
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

/// The features of a request in plans that compute rows of its prompt.
fn of_prompt(plans: &[Plan], handle: u64) -> Vec<i32> {
    let of_plan = |plan: &Plan| {
        let index = plan.request_handle.iter().position(|&one| one == handle)?;
        (plan.request_kind[index] == 0).then(|| plan.request_feature[index])
    };
    plans.iter().filter_map(of_plan).collect()
}

/// A prompt of 40 tokens: 36 of `beginning`, four of `end`.
fn prompt(beginning: u32, end: u32) -> Vec<u32> {
    let tokens = (0..36).map(|n| 1 + (beginning * 7 + n * n) % 29);
    tokens.chain((1..5).map(|n| end * n % 30)).collect()
}

/// A drafter that sleeps while requests 1 to 5 decode; request 6 left the pages of `known`. And the plans so far.
fn asleep_beside_five(known: &[u32]) -> (Driver, Head, Vec<Plan>) {
    let mut driver = engine(Some(0.05));
    let mut head = Head::new(Script::Wrong);
    for one in (1..=5).map(|handle| noisy(handle, 1200)) {
        driver.submit(one);
    }
    driver.submit(request(6, known, 4));
    let plans = steps(&mut driver, &mut head, 150);
    (driver, head, plans)
}

#[test]
fn while_it_sleeps_it_follows_no_prompt_beside_four_that_decode_but_of_fixed_modes() {
    let (mut driver, mut head, early) = asleep_beside_five(&prompt(1, 3));
    assert!(!of_prompt(&early, 6).contains(&LEFT_OUT));
    // It takes three tokens of a page too, as it would without a drafter.
    let mut ids = prompt(1, 3);
    ids[39] = 29;
    driver.submit(request(7, &ids, 40));
    driver.submit(request(8, &prompt(2, 5), 40));
    let fixed = Request {
        speculation: Some(SpeculationMode::Eagle2),
        ..request(9, &prompt(1, 7), 4)
    };
    let late = steps(&mut driver, &mut head, 3);
    driver.submit(fixed);
    let last = steps(&mut driver, &mut head, 3);
    for left_out in [of_prompt(&late, 7), of_prompt(&late, 8)] {
        assert!(!left_out.is_empty() && left_out.iter().all(|&feature| feature == LEFT_OUT));
    }
    let fixed = of_prompt(&last, 9);
    assert!(!fixed.is_empty() && !fixed.contains(&LEFT_OUT));
    // All decode; the one of a fixed mode is followed beside the four.
    assert_eq!(last.last().map(num_left_out), Some(3));
    while driver.step().is_some() {}
    let cached = [6, 7, 8].map(|handle| driver.finishes[&handle].stats.cached_tokens);
    assert_eq!(cached, [0, 39, 0]);
}

#[test]
fn of_a_namespace_that_no_drafter_is_for_it_keeps_nothing_from_the_first_row_on() {
    for (namespace, is_kept) in [("mine", true), ("theirs", false)] {
        let mut driver = engine(None);
        let info = DrafterInfo {
            namespaces: Some(vec!["mine".to_owned()]),
            ..drafter(0.05)
        };
        driver.engine.add_drafter(info).unwrap();
        driver.submit(Request {
            namespace: namespace.to_owned(),
            ..request(1, &prompt(1, 3), 8)
        });
        let plans = driver.run();
        assert!(plans.len() > 3);
        let count: usize = plans.iter().map(num_left_out).sum();
        assert_eq!(count, if is_kept { 0 } else { plans.len() });
    }
}

#[test]
fn while_it_is_awake_it_follows_prompts_that_were_mostly_found_too_whatever_their_mode() {
    let mut driver = engine(Some(0.05));
    let mut head = Head::new(Script::Wrong);
    driver.submit(request(1, &prompt(1, 3), 4));
    steps(&mut driver, &mut head, 6);
    driver.submit(Request {
        speculation: Some(SpeculationMode::Off),
        ..request(2, &prompt(1, 5), 4)
    });
    driver.submit(request(3, &prompt(1, 7), 4));
    let plans = steps(&mut driver, &mut head, 3);
    for handle in [2, 3] {
        let features = of_prompt(&plans, handle);
        assert!(
            !features.is_empty() && !features.contains(&LEFT_OUT),
            "{handle}"
        );
    }
}

#[test]
fn while_it_sleeps_requests_that_end_with_their_prompt_take_no_place_of_others() {
    for (max_tokens, is_left_out) in [(1, false), (8, true)] {
        let (mut driver, mut head, _) = asleep_beside_five(&prompt(1, 3));
        for handle in 3..=5 {
            driver.engine.cancel(handle, None, false);
        }
        for handle in 11..15 {
            driver.submit(request(handle, &prompt(handle as u32, 3), max_tokens));
        }
        driver.submit(request(7, &prompt(1, 9), 8));
        let plans = steps(&mut driver, &mut head, 3);
        let features = of_prompt(&plans, 7);
        assert!(!features.is_empty());
        assert_eq!(features.contains(&LEFT_OUT), is_left_out, "{max_tokens}");
    }
}

/// A drafter that sleeps, while nobody decodes.
fn asleep_alone() -> (Driver, Head) {
    let (mut driver, mut head, _) = asleep_beside_five(&prompt(1, 3));
    for handle in 1..=5 {
        driver.engine.cancel(handle, None, false);
    }
    steps(&mut driver, &mut head, 1);
    (driver, head)
}

#[test]
fn while_it_sleeps_it_follows_the_end_of_a_prompt() {
    let (mut driver, mut head) = asleep_alone();
    let ids: Vec<u32> = (0..200).map(|n| 1 + (n * n + 3 * n) % 29).collect();
    for (handle, length) in [(7, 200), (8, 60)] {
        driver.submit(request(handle, &ids[200 - length..], 40));
    }
    let plans = steps(&mut driver, &mut head, 12);
    for (handle, first) in [(7, 136), (8, 0)] {
        let prompts = of_prompt(&plans, handle);
        assert!(!prompts.is_empty() && !prompts.contains(&LEFT_OUT));
        let mut firsts = plans.iter().filter_map(|plan| {
            let mut handles = plan.request_handle.iter();
            let index = handles.position(|&one| one == handle)?;
            Some(plan.request_first[index])
        });
        assert!(firsts.all(|one| one == first), "{handle}");
    }
}

#[test]
fn while_it_sleeps_one_that_was_left_out_takes_the_place_of_one_that_ended() {
    let (mut driver, mut head, _) = asleep_beside_five(&prompt(1, 3));
    let before = steps(&mut driver, &mut head, 1);
    assert_eq!(num_left_out(&before[0]), 1);
    let kv_len = before[0].request_kv_len[4];
    driver.engine.cancel(2, None, false);
    let plans = steps(&mut driver, &mut head, 40);
    assert!(plans.iter().all(|plan| num_left_out(plan) == 0));
    let first = plans[0].request_first[3];
    assert!(kv_len < first && first <= kv_len + 48, "{kv_len} {first}");
    assert!(
        plans
            .iter()
            .all(|plan| plan.request_first == [0, 0, 0, first])
    );
    // It is tried on that one too.
    steps(&mut driver, &mut head, 200);
    assert!(head.late_rows > 0);
}

#[test]
fn while_short_requests_come_and_go_it_is_tried_all_the_same() {
    let mut driver = engine(Some(0.05));
    let mut head = Head::new(Script::Wrong);
    let mut num_sent = 0;
    let mut run = |head: &mut Head, num_steps: usize| {
        let mut left_out = Vec::new();
        for _ in 0..num_steps {
            while num_sent < driver.finishes.len() as u64 + 8 {
                num_sent += 1;
                // One of them ends in about each step.
                let one = Request {
                    prompt_ids: vec![1 + num_sent as u32 % 28, 4, 1 + num_sent as u32 % 23],
                    ..noisy(num_sent, num_sent.min(8) as u32)
                };
                head.requests.push(one.clone());
                driver.submit(one);
            }
            left_out.push(num_left_out(&steps(&mut driver, head, 1)[0]));
        }
        left_out
    };
    run(&mut head, 300);
    let num_rows = head.rows;
    let asleep = run(&mut head, 1200);
    assert!(asleep.iter().all(|&count| count == 4), "{asleep:?}");
    // Some are followed from their first tokens on, although others are older.
    assert!(head.rows > num_rows);
}
