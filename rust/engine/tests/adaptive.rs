//! What the choice of drafts is worth in tokens a millisecond, on a simulated clock.

#[cfg(test)]
mod support;

use spectrie_types::SpeculationMode;
use support::simulation::{Policy, noisy, phased, run, text};

#[test]
fn drafts_that_never_pay_cost_next_to_nothing() {
    for num_requests in [1, 8, 32] {
        let texts = noisy(num_requests, 32 + 256);
        let off = run(&texts, 256, Policy::of(SpeculationMode::Off));
        let auto = run(&texts, 256, Policy::of(SpeculationMode::Auto));
        let share = auto.rate() / off.rate();
        assert!(
            share >= 0.99,
            "{num_requests} requests: {share} {:?}",
            auto.load
        );
        let steps = num_requests as u64 * 256;
        assert!(
            auto.load.draft_calls < steps / 5,
            "{} calls",
            auto.load.draft_calls
        );
        assert!(
            auto.top_rows < steps as usize / 4,
            "{} top rows",
            auto.top_rows
        );
    }
}

#[test]
fn the_budget_beats_every_fixed_number_of_drafts_and_the_tiers_where_phases_alternate() {
    for num_requests in [1, 8] {
        let texts = phased(num_requests, 100 + 1200);
        let rate = |mode, max_draft_tokens| {
            let policy = Policy {
                max_draft_tokens,
                ..Policy::of(mode)
            };
            run(&texts, 1200, policy).rate()
        };
        let auto = rate(SpeculationMode::Auto, 16);
        let others = [
            ("off", rate(SpeculationMode::Off, 16)),
            ("1", rate(SpeculationMode::Prob, 1)),
            ("3", rate(SpeculationMode::Prob, 3)),
            ("7", rate(SpeculationMode::Prob, 7)),
            ("tiers", rate(SpeculationMode::Tiers, 16)),
        ];
        for (name, other) in others {
            assert!(
                auto >= other,
                "{num_requests} requests, {name}: {auto} < {other}, {others:?}"
            );
        }
    }
}

#[test]
fn requests_wake_when_their_text_becomes_predictable() {
    // Long noise, then only repetition.
    let texts = vec![text(1, 50 + 800, |at| at > 450)];
    let auto = run(&texts, 800, Policy::of(SpeculationMode::Auto));
    let off = run(&texts, 800, Policy::of(SpeculationMode::Off));
    assert!(
        auto.load.accepted_tokens > 250,
        "{} accepted",
        auto.load.accepted_tokens
    );
    assert!(auto.rate() > 1.4 * off.rate());
}

#[test]
fn most_choices_are_right_whether_drafts_pay_or_not() {
    let policy = Policy {
        holdout_every: 20,
        ..Policy::of(SpeculationMode::Auto)
    };
    for texts in [noisy(8, 32 + 600), phased(4, 100 + 900)] {
        let num_output = texts[0].len() - if texts.len() == 8 { 32 } else { 100 };
        let load = run(&texts, num_output, policy).load;
        assert!(load.choices_right <= load.choices_total);
        let share = load.choices_right as f64 / load.choices_total.max(1) as f64;
        assert!(
            share > 0.9,
            "{} of {}",
            load.choices_right,
            load.choices_total
        );
    }
}
