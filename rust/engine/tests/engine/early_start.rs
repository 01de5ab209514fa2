//! Forwards that begin before the results of those before them are known change no answer and no count.

use std::sync::Arc;

use crate::support::early::{EarlyCounts, run_early};
use crate::support::playing::{Seen, StillClock, check_visit, run_by};
use crate::support::scenario::{Scenario, scenario};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngSeed, TestRunner};
use spectrie_engine::SystemClock;
use spectrie_types::SpeculationMode;

/// Fixed, so that a run on one machine is the run on every other.
fn cases(cases: u32, seed: u64) -> ProptestConfig {
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn check(scenario: &Scenario) -> EarlyCounts {
    let (seen, counts) = run_early(scenario, Arc::new(SystemClock::default()));
    assert_eq!(seen.len(), scenario.visits.len());
    for visit in &scenario.visits {
        check_visit(scenario, visit, &seen[&visit.request.handle]);
    }
    counts
}

/// What of a request may not depend on when forwards began.
#[cfg(test)]
fn outcome(seen: &Seen) -> impl PartialEq + std::fmt::Debug {
    let finish = seen.finish.as_ref().unwrap();
    let stats = &finish.stats;
    (
        seen.tokens.clone(),
        seen.sources.clone(),
        (finish.kind, finish.message.clone(), finish.keep_tokens),
        (stats.drafted_tokens, stats.accepted_tokens),
        (stats.verify_steps, stats.cached_tokens, stats.preemptions),
        stats.accepted_prediction_tokens,
    )
}

/// The same traffic, of requests whose draws need nothing but positions: others begin early seldom.
fn ready(mut scenario: Scenario) -> Scenario {
    for visit in &mut scenario.visits {
        let request = &mut visit.request;
        (request.logprobs, request.prompt_logprobs) = (None, None);
        request.bad_words.retain(|word| word.len() == 1);
        request.grammar = None;
        request.sampling.repetition_penalty = 1.0;
        request.sampling.frequency_penalty = 0.0;
        request.sampling.presence_penalty = 0.0;
        visit.expression = None;
    }
    scenario
}

proptest! {
    #![proptest_config(cases(300, 11))]

    #[test]
    fn tokens_are_those_of_decoding_alone_without_drafts(scenario in scenario(SpeculationMode::Off)) {
        check(&scenario);
        check(&ready(scenario));
    }

    #[test]
    fn tokens_are_those_of_decoding_alone_with_budgeted_drafts(scenario in scenario(SpeculationMode::Auto)) {
        check(&scenario);
        check(&ready(scenario));
    }

    #[test]
    fn tokens_are_those_of_decoding_alone_with_a_helper(mut scenario in scenario(SpeculationMode::Off)) {
        scenario.config.overlap = true;
        check(&ready(scenario));
    }

    /// Whom nobody stops from outside, all in one batch and with room for all, is served the same.
    #[test]
    fn usage_and_ends_are_those_of_steps_one_by_one(scenario in scenario(SpeculationMode::Off)) {
        let mut scenario = ready(scenario);
        scenario.config.num_pages = 600;
        scenario.config.max_running = 40;
        scenario.config.max_batch_rows = 140;
        for visit in &mut scenario.visits {
            visit.arrives_at_step = 0;
            visit.cancelled_at_step = None;
            visit.request.deadline_s = None;
        }
        // By the machine's, who is admitted first depends on how long submitting took.
        let clock = Arc::new(StillClock);
        let (early, _) = run_early(&scenario, clock.clone());
        for (handle, seen) in run_by(&scenario, clock) {
            prop_assert_eq!(outcome(&seen), outcome(&early[&handle]));
        }
    }
}

#[test]
fn random_traffic_begins_early_and_drops_rows_of_every_end() {
    // Guards the tests above: traffic without early forwards would prove nothing.
    let mut runner = TestRunner::new(cases(1, 12));
    let mut all = EarlyCounts::default();
    for _ in 0..300 {
        let scenario = scenario(SpeculationMode::Off).new_tree(&mut runner);
        let counts = check(&ready(scenario.unwrap().current()));
        all.plans += counts.plans;
        all.waited += counts.waited;
        for (kind, count) in counts.dropped {
            *all.dropped.entry(kind).or_default() += count;
        }
    }
    assert!(all.plans > 2000 && all.waited > 1000, "{all:?}");
    for kind in ["eos", "stop_token", "cancelled", "deadline"] {
        assert!(
            all.dropped.get(kind).is_some_and(|&count| count > 0),
            "{all:?}"
        );
    }
    // What ends by its length has no row in the early plan.
    assert!(!all.dropped.contains_key("length"), "{all:?}");
}
