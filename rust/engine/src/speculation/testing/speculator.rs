//! The speculator without a scheduler.

use std::sync::Arc;

use super::super::drafting::Drafting;
use super::super::gain::Trial;
use super::super::speculator::{EndedStep, Speculator};
use super::super::step::Candidate;
use super::super::tree::SentTree;
use crate::clock::{Clock, Ticking};
use crate::config::EngineConfig;
use crate::costs::{CostCurve, CostShape, ForwardSize};
use crate::output::Load;
use crate::request::Request;

fn speculator(times: &[f64; 2], holdout_every: u64) -> Speculator {
    let config = EngineConfig {
        holdout_every,
        ..EngineConfig::new(100, 16, 256, 4)
    };
    let mut speculator = Speculator::new(Arc::new(config), None);
    let costs = CostCurve::new(&[1, 64], times, CostShape::default());
    speculator.set_costs(costs.unwrap());
    speculator
}

/// The drafting of a request whose text repeats itself.
fn drafting(speculator: &Speculator) -> (Drafting, usize) {
    let tokens: Vec<u32> = (0..60).map(|index| index % 5 + 1).collect();
    let request = Request::new(1, tokens.clone(), 100);
    let mut drafting = speculator.drafting(&request, &tokens, tokens.len());
    drafting.feed(&tokens);
    (drafting, tokens.len())
}

/// Draft nodes that are bought in a step, and what it says about the gain.
fn draft(speculator: &mut Speculator, step: u64) -> (usize, Option<Trial>) {
    let (mut drafting, kv_len) = drafting(speculator);
    let mut candidates = [Candidate {
        drafting: &mut drafting,
        kv_len,
        num_left: 50,
        grammar_has_ended: false,
        is_limited: false,
    }];
    let chunk = ForwardSize::default();
    let clock: Arc<dyn Clock> = Arc::new(Ticking::by(2));
    let drafts = speculator.draft(step, &mut candidates, chunk, f64::INFINITY, &clock);
    (drafts.offers[0].num_bought(), drafts.trial)
}

fn ended() -> EndedStep {
    EndedStep {
        trial: Some(Trial::Offered),
        num_requests: 1,
        num_rows: 1,
        num_tokens: 2,
        milliseconds: 5.0,
        upkeep_ms: 1.0,
        feedback_ms: 0.5,
    }
}

#[test]
fn as_much_is_bought_as_the_costs_justify() {
    let (bought, trial) = draft(&mut speculator(&[10.0, 10.1], 0), 1);
    assert!(bought > 3, "{bought}");
    assert_eq!(trial, Some(Trial::Offered));
    let (bought, _) = draft(&mut speculator(&[10.0, 640.0], 0), 1);
    assert_eq!(bought, 0);
}

#[test]
fn holdout_steps_draft_nothing_and_say_so() {
    let mut speculator = speculator(&[10.0, 10.1], 1);
    assert_eq!(draft(&mut speculator, 1), (0, Some(Trial::Holdout)));
    speculator.end_step(&EndedStep {
        trial: Some(Trial::Holdout),
        ..ended()
    });
    let mut load = Load::default();
    speculator.report(&mut load);
    assert_eq!(load.draft_calls, 0, "nobody was asked");
    assert_eq!(load.draft_times.counts().iter().sum::<u64>(), 0);
    assert!(load.draft_seconds > 0.0, "what it took counts all the same");
}

#[test]
fn drafting_is_timed_by_the_clock_that_is_passed_in() {
    let mut speculator = speculator(&[10.0, 10.1], 0);
    for step in 1..=2 {
        draft(&mut speculator, step);
        speculator.end_step(&ended());
    }
    let mut load = Load::default();
    speculator.report(&mut load);
    assert_eq!(load.draft_calls, 2);
    // Each step reads it before and after, and around the one question.
    assert!((load.draft_seconds - 12.0e-3).abs() < 1e-9);
    let times = load.draft_times;
    let at_6_ms = times.bounds().partition_point(|&bound| bound < 6.0e-3);
    assert_eq!(times.counts()[at_6_ms], 2, "one of 6 ms for each step");
    assert_eq!(times.counts().iter().sum::<u64>(), 2);
    assert!((times.sum() - load.draft_seconds).abs() < 1e-12);
}

#[test]
fn what_became_of_a_tree_and_a_step_is_reported() {
    let mut speculator = speculator(&[10.0, 10.1], 0);
    let (mut drafting, _) = drafting(&speculator);
    let tree = SentTree::new(drafting.draft(3, 0.0), |_| true);
    assert!(tree.num_nodes() > 0);
    speculator.note_tree(&mut drafting, &tree, &[1], Some(1), false);
    speculator.end_step(&EndedStep {
        num_rows: 1 + tree.num_nodes(),
        ..ended()
    });
    let mut load = Load::default();
    speculator.report(&mut load);
    assert_eq!(load.drafted_tokens, tree.num_nodes() as u64);
    assert_eq!(load.tree_nodes.counts().iter().sum::<u64>(), 1);
    assert!((load.tree_nodes.sum() - tree.num_nodes() as f64).abs() < 1e-12);
    assert_eq!((load.accepted_tokens, load.offered_tokens), (1, 2));
    assert_eq!(load.accepted_by_source.iter().sum::<u64>(), 1);
}
