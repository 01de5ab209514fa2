//! An engine's load as Python reads it.

use pyo3::prelude::*;
use spectrie_engine as core;
use spectrie_types::Histogram;

use super::mirror::mirror;

mirror! {
    /// How busy an engine is.
    pub(super) struct Load of load: core::Load {
        running: usize,
        waiting: usize,
        waiting_bytes: usize,
        pages_used: usize,
        pages_cached: usize,
        pages_total: usize,
        memory_bytes: usize,
        steps: u64,
        drafted_tokens: u64,
        accepted_tokens: u64,
        prompt_tokens: u64,
        generated_tokens: u64,
        preemptions: u64,
        prefix_query_tokens: u64,
        prefix_hit_tokens: u64,
        draft_calls: u64,
        draft_seconds: f64,
        draft_times: Counted = counted(&load.draft_times),
        step_times: Counted = counted(&load.step_times),
        verify_times: Counted = counted(&load.verify_times),
        tree_nodes: Counted = counted(&load.tree_nodes),
        memory_lookups: u64,
        memory_hits: u64,
        learn_seconds: f64,
        choices_total: u64,
        choices_right: u64,
        corpus_bytes: usize,
        lost_corpus_blocks: u64,
        memory_tokens: u64,
        inserted_tokens: u64,
        memory_namespaces: usize,
        evicted_tokens: u64,
        dropped_tokens: Vec<u64> = load.dropped_tokens.to_vec(),
        snapshot_written_bytes: u64,
        expected_accepted: f64,
        accepted_by_source: Vec<u64> = load.accepted_by_source.to_vec(),
        calibration: Vec<(u64, f64, u64)> = load
            .calibration
            .map(|bin| (bin.trials, bin.expected, bin.actual))
            .to_vec(),
        offered_steps: u64,
        offered_tokens: u64,
        step_ms_total: f64,
        holdout_steps: u64,
        holdout_tokens: u64,
        holdout_ms_total: f64,
        net_gain: Option<f64> = load.net_gain.map(|gain| gain.ratio),
        net_gain_low: Option<f64> = load.net_gain.map(|gain| gain.low),
        net_gain_high: Option<f64> = load.net_gain.map(|gain| gain.high),
        head_levels: u64,
        head_rows: u64,
        head_gain: Option<f64> = load.head_gain.map(|gain| gain.ratio),
        head_gain_low: Option<f64> = load.head_gain.map(|gain| gain.low),
        head_gain_high: Option<f64> = load.head_gain.map(|gain| gain.high),
        drafters: Vec<DrafterLoad> = load.drafters.iter().flatten().map(drafter_load).collect(),
        longest_step_ms: f64,
    }
}

/// Values in each bucket of a histogram, and their sum.
type Counted = (Vec<u64>, f64);

fn counted(histogram: &Histogram) -> Counted {
    (histogram.counts().to_vec(), histogram.sum())
}

/// Levels and rows that a drafter was asked, and its gain with the ends of its interval.
type DrafterLoad = (u64, u64, Option<(f64, f64, f64)>);

fn drafter_load(one: &core::DrafterLoad) -> DrafterLoad {
    let gain = one.gain.map(|gain| (gain.ratio, gain.low, gain.high));
    (one.levels, one.rows, gain)
}

impl Load {
    /// That of an engine, with what its draft `memory` holds or without.
    pub(super) fn of(engine: &core::Engine, memory: bool) -> Self {
        Self::new(if memory {
            engine.load()
        } else {
            engine.queue_load()
        })
    }
}
