//! A drafter that the runner calls sleeps where it does not pay and wakes where it does, on a simulated clock.

use crate::support::simulation::{Device, DraftCost, FLAT, Outcome, Policy, noisy, run, text};
use crate::support::text_head::TextHead;
use spectrie_types::SpeculationMode;

#[cfg(test)]
fn policy(first_ms: f64, knows: fn(usize) -> bool) -> Policy {
    Policy {
        device: Device::Rows(FLAT),
        head: Some(TextHead { first_ms, knows }),
        ..Policy::of(SpeculationMode::Auto)
    }
}

/// Steps with a level among those that begin with `least` to `most` tokens emitted, and all of these.
#[cfg(test)]
fn asked(outcome: &Outcome, least: u64, most: u64) -> (usize, usize) {
    let steps = outcome.levels.iter();
    let steps = steps.filter(|&&(tokens, _)| (least..most).contains(&tokens));
    let asked = steps.clone().filter(|&&(_, levels)| levels > 0).count();
    (asked, steps.count())
}

/// Steps from the first that begins with `tokens` emitted until the drafter is asked in three of four.
#[cfg(test)]
fn steps_until_awake(outcome: &Outcome, tokens: u64) -> usize {
    let steps = outcome.levels.iter().skip_while(|one| one.0 < tokens);
    let is_asked: Vec<bool> = steps.map(|one| one.1 > 0).collect();
    let is_awake = |four: &[bool]| four.iter().filter(|&&is| is).count() >= 3;
    is_asked.windows(4).position(is_awake).unwrap_or(usize::MAX)
}

#[test]
fn on_edits_it_is_hardly_asked_and_wakes_within_64_steps_when_the_text_becomes_chat() {
    // Copies with a new token now and then, which others draft; then what only the head knows.
    const CHANGE: usize = 6000;
    let texts = vec![text(1, 100 + 8000, |at| {
        at < 100 + CHANGE && !at.is_multiple_of(25)
    })];
    let with = run(&texts, 8000, policy(0.5, |at| at >= 100 + CHANGE));
    let (asked, steps) = asked(&with, 200, CHANGE as u64 - 20);
    assert!(steps > 300, "{steps}");
    assert!(20 * asked < steps, "{asked} of {steps} steps");
    let waited = steps_until_awake(&with, CHANGE as u64);
    assert!(waited <= 64 + 8, "{waited} steps");
    let alone = Policy {
        head: None,
        ..policy(0.5, |_| false)
    };
    let alone = run(&texts, 8000, alone);
    assert!(with.rate() > 1.1 * alone.rate());
}

/// Tokens after which what nobody but the drafter knows begins, in [`resting`].
const CHANGE: u64 = 2000;

/// Half of each text can be drafted, at a price that the engine cannot see, so its drafts rest; then comes what only
/// the drafter knows. What an engine with it did, and its speed over drafts without it and over no drafts.
#[cfg(test)]
fn resting(seeds: std::ops::RangeInclusive<u64>, top_ms: f64) -> (Outcome, f64, f64) {
    let change = 100 + CHANGE as usize;
    let half = |seed: u64| text(seed, 100 + 3500, |at| at < change && at * 7 % 16 < 8);
    let texts: Vec<_> = seeds.map(half).collect();
    let policy = Policy {
        top_ms,
        holdout_every: 20,
        ..policy(0.3, |at| at >= 100 + CHANGE as usize)
    };
    let with = run(&texts, 3500, policy);
    let alone = Policy {
        head: None,
        ..policy
    };
    let off = Policy {
        mode: SpeculationMode::Off,
        ..alone
    };
    let alone = with.rate() / run(&texts, 3500, alone).rate();
    let off = with.rate() / run(&texts, 3500, off).rate();
    let late = with.asked.iter().filter(|&&step| step > 400 && step < 1900);
    // A try of each request in 64 steps is left.
    assert!(late.count() < 750, "no rest");
    let num_requests = texts.len() as u64;
    let (asked, steps) = asked(&with, 300 * num_requests, CHANGE * num_requests);
    assert!(
        20 * asked < steps * texts.len(),
        "{num_requests}: {asked} of {steps} steps"
    );
    (with, alone, off)
}

#[test]
fn while_drafts_rest_it_never_loses_and_wakes_within_two_tries_in_the_median() {
    let mut waits = Vec::new();
    for seed in 1..=8 {
        let (with, alone, off) = resting(seed..=seed, 4.0);
        assert!(alone >= 0.99 && off >= 0.99, "seed {seed}: {alone} {off}");
        waits.push(steps_until_awake(&with, CHANGE));
    }
    waits.sort_unstable();
    println!("{waits:?} steps");
    let median = waits[waits.len() / 2];
    let longest = waits[waits.len() - 1];
    assert!(median <= 2 * 64 && longest <= 4 * 64, "{waits:?} steps");
}

#[test]
fn one_of_eight_at_a_time_is_too_little_to_end_the_rest_of_all() {
    // Of eight texts alone it says little: chance decides when drafts rest.
    let eights = (0..6).map(|n| 1 + 8 * n..=8 + 8 * n);
    let alone: Vec<f64> = eights.map(|seeds| resting(seeds, 0.5).1).collect();
    let mean = alone.iter().sum::<f64>() / alone.len() as f64;
    assert!(mean > 0.96, "{alone:?}");
}

#[test]
fn one_that_knows_nothing_costs_next_to_nothing() {
    for (num_requests, first_ms) in [(1, 0.5), (1, 5.0), (8, 0.5), (8, 5.0)] {
        let texts = noisy(num_requests, 32 + 1500);
        let with = run(&texts, 1500, policy(first_ms, |_| false));
        let off = Policy {
            mode: SpeculationMode::Off,
            head: None,
            ..policy(first_ms, |_| false)
        };
        let share = with.rate() / run(&texts, 1500, off).rate();
        assert!(
            share >= 0.98,
            "{num_requests} requests, {first_ms} ms: {share}"
        );
        assert!(
            with.load.head_levels > 0,
            "{num_requests} requests, {first_ms} ms"
        );
    }
}

#[test]
fn drafts_that_heed_its_answers_are_timed() {
    let texts = noisy(1, 32 + 600);
    let policy = Policy {
        draft_cost: |_| DraftCost::of(0.5),
        ..policy(0.5, |_| true)
    };
    let load = run(&texts, 600, policy).load;
    assert!(load.head_levels > 100, "{}", load.head_levels);
    // One for each question, and one more for each level that was answered.
    let drafts = (load.draft_calls + load.head_levels) as f64;
    let each_ms = load.draft_seconds * 1e3 / drafts;
    assert!((each_ms - 0.5).abs() < 1e-6, "{each_ms} ms");
}

#[test]
fn tries_of_one_that_knows_nothing_ask_dear_questions_seldom() {
    let texts = noisy(8, 32 + 1500);
    let policy = Policy {
        draft_cost: |_| DraftCost::of(4.0),
        ..policy(0.5, |_| false)
    };
    let with = run(&texts, 1500, policy);
    let off = Policy {
        mode: SpeculationMode::Off,
        head: None,
        ..policy
    };
    let share = with.rate() / run(&texts, 1500, off).rate();
    assert!(share >= 0.97, "{share}");
}
