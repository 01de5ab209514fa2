//! Random traffic of engines with drafters of every kind.

use std::sync::Arc;

use spectrie_types::seed::splitmix;
use spectrie_types::{Source, SpeculationMode};

use super::counts::Counts;
use super::fake_head::FakeHead;
use super::{Traffic, end};
use crate::cache::LEFT_OUT;
use crate::clock::Ticking;
use crate::config::EngineConfig;
use crate::costs::{CostCurve, CostShape};
use crate::scheduling::Scheduler;
use crate::scheduling::admission::Following;
use crate::scheduling::testing::dice::Dice;
use crate::speculation::DrafterInfo;

/// Steps of one engine.
const STEPS: usize = 500;

/// One that costs next to nothing: with features or without, for all namespaces or for one, of one row or of
/// several levels.
fn drafter(seed: u64) -> DrafterInfo {
    let is_model = seed % 5 == 3;
    let max_levels = [3, 3, 1, 6][seed as usize % 4];
    DrafterInfo {
        source: if is_model {
            Source::DraftModel
        } else {
            Source::Head
        },
        needs_features: !is_model,
        max_levels,
        max_rows: [24, 24, 1, 64][seed as usize % 4],
        rows: vec![1, 16],
        first_ms: vec![0.01, 0.02],
        later_ms: vec![0.01, 0.02],
        // Some make up so little in a step that it takes several.
        fill_ms: match (is_model, seed % 2) {
            (false, _) => Vec::new(),
            (true, 0) => vec![0.001, 0.002],
            (true, _) => vec![1.0, 16.0],
        },
        namespaces: (seed % 3 == 1).then(|| vec!["a".to_owned()]),
    }
}

impl Traffic {
    /// As [`Traffic::new`], with a drafter, on a clock that makes each run the same.
    fn with_head(seed: u64) -> Self {
        Self::with_heads(seed, &[seed])
    }

    /// The same with a drafter for each of `kinds`.
    fn with_heads(seed: u64, kinds: &[u64]) -> Self {
        let mut dice = Dice(splitmix(seed));
        let given = dice.config();
        let config = EngineConfig {
            speculation: [SpeculationMode::Auto, given.speculation][usize::from(seed % 8 == 7)],
            // In the others asking takes what the clock says, and requests rest from it.
            drafting_cost_ms: (!seed.is_multiple_of(4)).then_some(0.0),
            ..given
        };
        let mut traffic = Self::of(dice, config, Arc::new(Ticking::by(1)));
        traffic.nods = (seed / 8).is_multiple_of(3);
        let costs = CostCurve::new(&[1, 64], &[10.0, 12.0], CostShape::default());
        traffic.scheduler.set_costs(costs.unwrap());
        let infos: Vec<DrafterInfo> = kinds.iter().map(|&kind| drafter(kind)).collect();
        let read = infos.iter().any(|info| info.needs_features);
        for info in infos {
            let number = traffic.scheduler.add_drafter(info.clone()).unwrap();
            let head = FakeHead::new(&traffic.scheduler, info, number, read, seed % 6 == 5);
            traffic.heads.push(head);
        }
        traffic
    }
}

/// Engines of different sizes with a drafter, until so many of their steps had it.
fn check(num_steps: u64) {
    let (all, preemptions) = run(num_steps, Traffic::with_head);
    // Without these nothing would have been tried.
    let is_many = |count: u64, share: u64| count > num_steps / share;
    assert!(
        is_many(all.levels, 3) && is_many(all.deep_levels, 10),
        "{all:?}"
    );
    assert!(is_many(all.from_head, 100), "{all:?}");
    assert!(
        is_many(all.features_from_pages, 200) && is_many(all.rows_again, 200),
        "{all:?}"
    );
    assert!(
        is_many(all.made_up, 5)
            && is_many(all.made_up_behind_others, 100)
            && is_many(all.made_up_unasked, 2000),
        "{all:?}"
    );
    assert!(is_many(all.refused_answers, 200), "{all:?}");
    assert!(
        is_many(all.rows_left_out, 20)
            && is_many(all.rows_passed, 200)
            && is_many(all.asked_late, 1000),
        "{all:?}"
    );
    assert!(
        is_many(all.heads_given_up, 10_000) && all.features_kept > 0,
        "{all:?}"
    );
    assert!(
        is_many(all.ended, 10) && is_many(all.by_deadline, 1000),
        "{all:?}"
    );
    assert!(is_many(preemptions, 4000), "{preemptions}");
}

/// Runs engines until so many of their steps had a drafter; what happened, and preemptions.
fn run(num_steps: u64, traffic_of: impl Fn(u64) -> Traffic) -> (Counts, u64) {
    let mut all = Counts::default();
    let mut preemptions = 0;
    for seed in 0.. {
        let mut traffic = traffic_of(seed);
        for _ in 0..STEPS {
            traffic.step(true);
        }
        while !traffic.held.is_empty() {
            traffic.step(false);
        }
        traffic.count_heads();
        preemptions += end(traffic, &mut all).preemptions;
        if all.steps_with_head >= num_steps {
            break;
        }
    }
    (all, preemptions)
}

#[test]
fn ten_thousand_random_steps_with_drafters_keep_every_promise() {
    check(10_000);
}

/// Pairs and more: of heads, of models, of both, for all and for one namespace.
const SEVERAL: [&[u64]; 8] = [
    &[0, 3],
    &[0, 5],
    &[3, 8],
    &[1, 0],
    &[5, 13, 0],
    &[4, 2],
    &[18, 3, 7],
    &[0, 3, 5, 8],
];

#[test]
fn ten_thousand_random_steps_with_several_drafters_keep_every_promise() {
    let num_steps = 10_000;
    let (all, preemptions) = run(num_steps, |seed| {
        Traffic::with_heads(seed, SEVERAL[seed as usize % SEVERAL.len()])
    });
    let is_many = |count: u64, share: u64| count > num_steps / share;
    assert!(
        is_many(all.levels, 3) && is_many(all.deep_levels, 10) && is_many(all.turns, 200),
        "{all:?}"
    );
    assert!(
        is_many(all.from_head, 100) && is_many(all.features_from_pages, 200),
        "{all:?}"
    );
    assert!(
        is_many(all.made_up, 4) && is_many(all.made_up_behind_others, 200),
        "{all:?}"
    );
    assert!(
        all.given_up_beside_others > 0 && all.features_kept > 0,
        "{all:?}"
    );
    assert!(is_many(preemptions, 4000), "{preemptions}");
}

/// Requests that drafters keep nothing of from the next step on, though they may draft for them, and all of those.
fn left_out(scheduler: &mut Scheduler) -> (usize, usize) {
    let mut following = Following::new(&scheduler.speculator);
    following.update(&mut scheduler.running, &mut scheduler.cache);
    let may_draft = scheduler.running.values().filter(|one| {
        let drafting = &one.drafting;
        let is_auto = drafting.mode() == SpeculationMode::Auto && drafting.max_nodes() > 0;
        !one.is_guest && is_auto && (one.decoding || one.num_left() > 1)
    });
    let rows = may_draft.map(|one| scheduler.cache.feature_row(&one.table));
    let rows: Vec<Option<i32>> = rows.collect();
    let left_out = rows.iter().filter(|&&row| row == Some(LEFT_OUT));
    (left_out.count(), rows.len())
}

#[test]
fn drafters_that_sleep_follow_four_and_those_that_wake_all() {
    let mut many = 0;
    for seed in (0..120).step_by(4) {
        let mut traffic = Traffic::with_head(seed);
        let info = &traffic.heads[0].info;
        if !info.needs_features || info.namespaces.is_some() {
            continue;
        }
        for _ in 0..60 {
            traffic.step(true);
            traffic.scheduler.speculator.set_asleep(true);
            let (left, all) = left_out(&mut traffic.scheduler);
            assert_eq!(left, all.saturating_sub(4), "{seed}");
            many += u64::from(left > 0);
            traffic.step(true);
            traffic.scheduler.speculator.set_asleep(false);
            assert_eq!(left_out(&mut traffic.scheduler).0, 0, "{seed}");
        }
    }
    assert!(many > 100, "{many}");
}

#[test]
#[ignore = "deep: minutes"]
fn a_hundred_thousand_random_steps_with_drafters_keep_every_promise() {
    check(100_000);
}

#[test]
fn no_step_begins_before_the_features_that_a_drafter_takes_are_known() {
    for seed in [0, 1, 2, 4] {
        let mut traffic = Traffic::with_head(seed);
        (traffic.starts_early, traffic.arrival_steps) = (true, 15);
        for _ in 0..STEPS {
            traffic.step(true);
        }
        let mut counts = Counts::default();
        end(traffic, &mut counts);
        assert!(counts.ended > 10, "{counts:?}");
        assert_eq!(counts.early_plans, 0);
    }
}
