//! What the choice of drafts is worth in tokens a millisecond, on a simulated clock.

use crate::support::simulation::{
    Device, DraftCost, FLAT, Outcome, Policy, noisy, phased, run, text,
};
use spectrie_types::SpeculationMode;

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
        // Where hardly anything is offered there is nothing to judge.
        let least = if texts.len() == 8 { 0 } else { 30 };
        let (right, total) = (load.choices_right, load.choices_total);
        assert!(right <= total && total >= least, "{right} of {total}");
        assert!(10 * right >= 9 * total, "{right} of {total}");
    }
}

fn policy(draft_cost: fn(usize) -> DraftCost) -> Policy {
    Policy {
        device: Device::Rows(FLAT),
        draft_cost,
        ..Policy::of(SpeculationMode::Auto)
    }
}

/// Tokens a millisecond over those without drafts.
fn over_off(outcome: &Outcome, texts: &[Vec<u32>], num_output: usize, policy: Policy) -> f64 {
    let off = Policy {
        mode: SpeculationMode::Off,
        ..policy
    };
    outcome.rate() / run(texts, num_output, off).rate()
}

#[test]
fn drafts_that_cost_much_and_never_pay_cost_next_to_nothing_too() {
    let costs: [fn(usize) -> DraftCost; 2] = [|_| DraftCost::of(0.5), |_| DraftCost::of(4.0)];
    for num_requests in [1, 8, 32] {
        for draft_cost in costs {
            let texts = noisy(num_requests, 32 + 1500);
            let policy = policy(draft_cost);
            let auto = run(&texts, 1500, policy);
            let share = over_off(&auto, &texts, 1500, policy);
            let cost = draft_cost(0);
            assert!(share >= 0.98, "{num_requests} requests, {cost:?}: {share}");
            assert!(auto.load.draft_calls > 0, "never asked");
        }
    }
}

#[test]
fn dear_drafts_are_still_asked_for_where_they_pay() {
    for num_requests in [1, 8] {
        let texts = phased(num_requests, 100 + 1500);
        let policy = policy(|_| DraftCost::of(1.0));
        let auto = run(&texts, 1500, policy);
        let share = over_off(&auto, &texts, 1500, policy);
        assert!(share >= 1.1, "{num_requests} requests: {share}");
    }
}

#[test]
fn a_memory_that_becomes_cheap_again_is_asked_again() {
    let changed = 1500;
    let texts = vec![text(1, 50 + 4000, |at| at > 50)];
    // Two tokens of 10 ms each are less than such a draft costs.
    let policy = Policy {
        max_draft_tokens: 2,
        ..policy(|step| DraftCost::of(if step < 1500 { 30.0 } else { 0.02 }))
    };
    let auto = run(&texts, 4000, policy);
    let dear = auto.asked.iter().filter(|&&step| step < changed).count();
    assert!(dear < 10, "{dear} dear drafts");
    // At most six hundred steps later the allowance is there for another.
    let cheap = auto.asked.iter().filter(|&&step| step >= changed + 700);
    let steps = auto.load.steps as usize - (changed + 700);
    let share = cheap.count() as f64 / steps as f64;
    assert!(share > 0.95, "{share} of {steps} steps");
}

#[test]
fn an_engine_whose_drafts_lose_for_a_reason_it_cannot_see_asks_in_probes_alone() {
    // The search for the likeliest tokens is no part of drafting, yet comes with it.
    let half = |seed: u64| text(seed, 100 + 3500, |at| at * 7 % 16 < 8);
    let texts: Vec<_> = (1..=8).map(half).collect();
    let policy = Policy {
        top_ms: 0.5,
        holdout_every: 20,
        ..policy(|_| DraftCost::measured())
    };
    let auto = run(&texts, 3500, policy);
    // Towards their ends fewer requests run, of which nothing is known yet.
    let late = auto.asked.iter().filter(|&&step| step > 200 && step < 3400);
    let late = late.count();
    assert!(late > 0 && late <= 4 * 8, "{late} late steps");
    let fixed = Policy {
        drafting_cost_ms: Some(0.0),
        ..policy
    };
    let blind = run(&texts, 3500, fixed);
    assert!(auto.rate() > 1.05 * blind.rate(), "{}", blind.rate());
}

#[test]
fn net_gain_is_what_on_over_off_is() {
    for (texts, least, most) in [
        (phased(8, 100 + 3500), 1.1, 3.0),
        (noisy(8, 3600), 0.97, 1.0),
    ] {
        let policy = Policy {
            holdout_every: 25,
            ..policy(|_| DraftCost::of(0.2))
        };
        let auto = run(&texts, 3500, policy);
        let share = over_off(&auto, &texts, 3500, policy);
        let gain = auto.load.net_gain.unwrap();
        assert!(share >= least && share <= most, "{share}");
        // The run itself holds out one step in 25.
        assert!((gain.ratio / share - 1.0).abs() < 0.04, "{gain:?} {share}");
        let (low, high) = (0.98 * gain.low, 1.02 * gain.high);
        assert!(low <= share && share <= high, "{gain:?} {share}");
    }
}

/// On a device that the engine knows, or takes for one where each row reads its keys alone.
fn gpu(is_known: bool) -> Policy {
    Policy {
        device: Device::Gpu { is_known },
        top_ms: 0.0,
        ..Policy::of(SpeculationMode::Auto)
    }
}

#[test]
fn on_a_device_drafts_never_make_steps_slower_than_none() {
    for (num_requests, num_prompt) in [(1, 32), (16, 32), (64, 32), (1, 30_000), (8, 16_000)] {
        for texts in [
            noisy(num_requests, num_prompt + 600),
            phased(num_requests, num_prompt + 600),
        ] {
            let auto = run(&texts, 600, gpu(true));
            let share = over_off(&auto, &texts, 600, gpu(true));
            assert!(share >= 0.98, "{num_requests} after {num_prompt}: {share}");
        }
    }
}

#[test]
fn where_tiles_read_keys_once_long_contexts_do_not_make_drafts_dear() {
    for (num_requests, num_prompt) in [(1, 30_000), (8, 16_000)] {
        let texts = phased(num_requests, num_prompt + 800);
        let known = run(&texts, 800, gpu(true));
        let unknown = run(&texts, 800, gpu(false));
        let share = over_off(&known, &texts, 800, gpu(true));
        assert!(share >= 1.2, "{num_requests} after {num_prompt}: {share}");
        assert!(
            known.rate() > unknown.rate(),
            "{num_requests} after {num_prompt}: {} <= {}",
            known.rate(),
            unknown.rate()
        );
    }
}
