//! Whatever the traffic, the page pool, the chunk size and the drafts, each request emits the
//! tokens it would emit alone.

use crate::support::playing::{check_visit, run};
use crate::support::scenario::{Scenario, scenario};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
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

fn check(scenario: &Scenario) {
    let seen = run(scenario);
    assert_eq!(seen.len(), scenario.visits.len());
    for visit in &scenario.visits {
        check_visit(scenario, visit, &seen[&visit.request.handle]);
    }
}

proptest! {
    #![proptest_config(cases(300, 1))]

    #[test]
    fn tokens_are_those_of_decoding_alone_without_drafts(scenario in scenario(SpeculationMode::Off)) {
        check(&scenario);
    }

    #[test]
    fn tokens_are_those_of_decoding_alone_with_budgeted_drafts(scenario in scenario(SpeculationMode::Auto)) {
        check(&scenario);
    }

    #[test]
    fn tokens_are_those_of_decoding_alone_with_breadth_first_drafts(scenario in scenario(SpeculationMode::Bfs)) {
        check(&scenario);
    }

    #[test]
    fn tokens_are_those_of_decoding_alone_with_frequency_drafts(scenario in scenario(SpeculationMode::Prob)) {
        check(&scenario);
    }

    #[test]
    fn tokens_are_those_of_decoding_alone_with_a_helper(mut scenario in scenario(SpeculationMode::Auto)) {
        scenario.config.overlap = true;
        check(&scenario);
    }

    #[test]
    fn tokens_are_those_of_decoding_alone_with_tiers(scenario in scenario(SpeculationMode::Tiers)) {
        check(&scenario);
    }
}

#[test]
fn random_traffic_drafts_accepts_moves_shares_and_preempts() {
    // Guards the tests above: traffic that never exercises the hard parts would prove nothing.
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::new(cases(1, 2));
    let (mut accepted, mut preemptions, mut normal, mut cached) = (0, 0, 0, 0);
    for _ in 0..250 {
        let scenario = scenario(SpeculationMode::Prob)
            .new_tree(&mut runner)
            .unwrap()
            .current();
        for (_, seen) in run(&scenario) {
            let finish = seen.finish.unwrap();
            accepted += finish.stats.accepted_tokens;
            preemptions += finish.stats.preemptions;
            cached += finish.stats.cached_tokens;
            normal += u32::from((finish.kind as u8) <= 3);
        }
    }
    assert!(
        accepted > 500 && preemptions > 20 && normal > 200 && cached > 2_000,
        "{accepted} {preemptions} {normal} {cached}"
    );
}
