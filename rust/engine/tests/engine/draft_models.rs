//! A drafter that reads no features makes keys when it is asked, each once, and nothing while it sleeps.

use crate::support::driver::{Driver, long_config, request};
use crate::support::head::{Head, Script, model};
use spectrie_engine::{DrafterInfo, Request};
use spectrie_types::Source;

/// An engine whose forwards take a millisecond, as the driver says they do, and a twentieth for each further row.
#[cfg(test)]
fn engine(info: Option<DrafterInfo>) -> Driver {
    let driver = Driver::still(long_config(), [1.0, 4.0]);
    if let Some(info) = info {
        driver.engine.add_drafter(info).unwrap();
    }
    driver
}

/// Text that repeats nothing.
fn noisy(handle: u64, prompt: &[u32], max_tokens: u32) -> Request {
    let mut one = request(handle, prompt, max_tokens);
    one.sampling.temperature = 2.0;
    one.choice_seed = handle;
    one
}

/// What a step asked.
#[cfg(test)]
struct Asked {
    levels: usize,
    made_up: u64,
    tokens: u64,
}

#[cfg(test)]
fn steps(driver: &mut Driver, head: &mut Head, num_steps: usize) -> Vec<Asked> {
    let mut all = Vec::new();
    for _ in 0..num_steps {
        let (made_up, tokens) = (head.made_up, driver.engine.load().generated_tokens);
        let levels = head.ask(&driver.engine, &mut driver.model, driver.now_s, 0.03);
        if driver.step().is_none() {
            break;
        }
        all.push(Asked {
            levels,
            made_up: head.made_up - made_up,
            tokens: driver.engine.load().generated_tokens - tokens,
        });
    }
    all
}

#[test]
fn one_that_is_never_asked_makes_no_keys_and_changes_no_plan() {
    let (mut asked, mut alone) = (engine(Some(model(1e4))), engine(None));
    for driver in [&asked, &alone] {
        driver.submit(noisy(1, &[3, 4, 9], 60));
        driver.submit(noisy(2, &[5, 6], 60));
    }
    let mut plans = Vec::new();
    loop {
        assert_eq!(asked.engine.draft_plan(asked.now_s).unwrap(), None);
        match asked.step() {
            Some(plan) => plans.push(plan),
            None => break,
        }
    }
    assert!(plans.len() > 20);
    assert_eq!(plans, alone.run());
}

#[test]
fn keys_are_made_once_of_what_was_committed_and_tokens_are_those_of_decoding_alone() {
    let (mut asked, mut alone) = (engine(Some(model(0.02))), engine(None));
    let prompt: Vec<u32> = (0..70).map(|at| at * 7 % 31 + 1).collect();
    let mut head = Head::new(Script::Right);
    for handle in 1..=3 {
        // They begin alike, and one comes when the others are gone.
        let one = noisy(handle, &[&prompt[..], &[handle as u32]].concat(), 50);
        head.requests.push(one.clone());
        if handle == 3 {
            steps(&mut asked, &mut head, usize::MAX);
            alone.run();
        }
        asked.submit(one.clone());
        alone.submit(one);
    }
    let before = head.made_up;
    steps(&mut asked, &mut head, usize::MAX);
    alone.run();
    assert_eq!(asked.tokens, alone.tokens);
    let accepted = asked.engine.load().accepted_by_source[Source::DraftModel as usize];
    assert!(accepted > 10, "{accepted}");
    // Four pages of the prompt are made for all three; the rest of each prompt, and its answer.
    let (shared, own) = (64, 7 + 49);
    assert!(before <= shared + 2 * own, "{before}");
    assert!(head.made_up - before <= own, "{}", head.made_up - before);
}

#[test]
fn while_it_sleeps_it_makes_no_keys_and_they_are_made_up_when_it_is_tried_and_wakes() {
    let mut driver = engine(Some(model(0.03)));
    let one = noisy(1, &[3, 4, 9], 3900);
    driver.submit(one.clone());
    let mut head = Head::new(Script::Wrong);
    head.requests = vec![one];
    steps(&mut driver, &mut head, 60);
    let asleep = steps(&mut driver, &mut head, 256);
    let tries: Vec<usize> = (0..asleep.len())
        .filter(|&index| asleep[index].levels > 0)
        .collect();
    assert!((2..=10).contains(&tries.len()), "{tries:?}");
    for (index, step) in asleep.iter().enumerate() {
        assert_eq!(step.made_up > 0, step.levels > 0, "step {index}");
    }
    // A try makes up what the steps since the last one gave.
    let (from, to) = (tries[0], tries[tries.len() - 1]);
    let given: u64 = asleep[from..to].iter().map(|step| step.tokens).sum();
    let made: u64 = asleep[from + 1..=to].iter().map(|step| step.made_up).sum();
    let all: Vec<_> = asleep[from..=to]
        .iter()
        .map(|step| (step.levels, step.made_up, step.tokens))
        .collect();
    assert_eq!(made, given, "{all:?}");
    head.script = Script::Right;
    steps(&mut driver, &mut head, 64 + 8);
    let awake = steps(&mut driver, &mut head, 20);
    let asked = awake.iter().filter(|step| step.levels > 0).count();
    assert!(asked >= 5, "asked in {asked} of 20 steps");
}

#[test]
fn a_long_prompt_is_made_up_in_parts_that_double_a_step_at_most() {
    // A token takes 0.01 ms, and a step of one row 1 ms.
    let info = DrafterInfo {
        fill_ms: vec![0.01, 0.24],
        ..model(0.02)
    };
    let mut driver = engine(Some(info));
    let prompt: Vec<u32> = (0..900).map(|at| at * 7 % 31 + 1).collect();
    let one = noisy(1, &prompt, 600);
    driver.submit(one.clone());
    let mut head = Head::new(Script::Right);
    head.requests = vec![one];
    let all = steps(&mut driver, &mut head, usize::MAX);
    let parts: Vec<u64> = all.iter().map(|step| step.made_up).collect();
    assert!(parts.iter().all(|&part| part <= 128), "{parts:?}");
    assert!(
        parts.iter().filter(|&&part| part >= 64).count() >= 10,
        "{parts:?}"
    );
    assert!(parts.iter().sum::<u64>() >= 900);
    let load = driver.engine.load();
    assert!(load.accepted_by_source[Source::DraftModel as usize] > 10);
    assert_eq!(load.head_levels, head.levels);
}
