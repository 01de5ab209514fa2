//! Outputs, ends and load as Python reads them.

use pyo3::prelude::*;
use spectrie_engine as core;

/// Why and how a request ended.
#[pyclass(frozen, get_all, name = "Finish", module = "spectrie._core")]
pub(super) struct Finish {
    kind: u8,
    message: Option<String>,
    verify_steps: u32,
    drafted_tokens: u32,
    accepted_tokens: u32,
    accepted_by_source: Vec<u32>,
    queue_ns: u64,
    prefill_ns: u64,
    decode_ns: u64,
    cached_tokens: u32,
    preemptions: u32,
    accepted_prediction_tokens: u32,
}

impl Finish {
    pub(super) fn new(finish: core::Finish) -> Self {
        let stats = finish.stats;
        Self {
            kind: finish.kind as u8,
            message: finish.message,
            verify_steps: stats.verify_steps,
            drafted_tokens: stats.drafted_tokens,
            accepted_tokens: stats.accepted_tokens,
            accepted_by_source: stats.accepted_by_source.to_vec(),
            queue_ns: stats.queue_ns,
            prefill_ns: stats.prefill_ns,
            decode_ns: stats.decode_ns,
            cached_tokens: stats.cached_tokens,
            preemptions: stats.preemptions,
            accepted_prediction_tokens: stats.accepted_prediction_tokens,
        }
    }
}

/// What requests emitted: tokens of request i are `token_ids[token_indptr[i]:token_indptr[i + 1]]`.
#[pyclass(frozen, get_all, name = "StepOutput", module = "spectrie._core")]
pub(super) struct StepOutput {
    handles: Vec<u64>,
    token_indptr: Vec<usize>,
    token_ids: Vec<u32>,
    sources: Vec<u32>,
    finishes: Vec<Option<Py<Finish>>>,
}

impl StepOutput {
    pub(super) fn new(py: Python<'_>, outputs: Vec<core::RequestOutput>) -> PyResult<Self> {
        let mut step = Self {
            handles: Vec::with_capacity(outputs.len()),
            token_indptr: vec![0],
            token_ids: Vec::new(),
            sources: Vec::new(),
            finishes: Vec::with_capacity(outputs.len()),
        };
        for output in outputs {
            step.handles.push(output.handle);
            step.token_ids.extend(output.token_ids);
            step.sources
                .extend(output.sources.into_iter().map(u32::from));
            step.token_indptr.push(step.token_ids.len());
            let finish = output
                .finish
                .map(|finish| Py::new(py, Finish::new(finish)))
                .transpose()?;
            step.finishes.push(finish);
        }
        Ok(step)
    }
}

/// How busy an engine is.
#[pyclass(frozen, get_all, name = "Load", module = "spectrie._core")]
pub(super) struct Load {
    running: usize,
    waiting: usize,
    pages_used: usize,
    pages_total: usize,
    memory_bytes: usize,
    steps: u64,
    drafted_tokens: u64,
    accepted_tokens: u64,
    prompt_tokens: u64,
    generated_tokens: u64,
    preemptions: u64,
    corpus_bytes: usize,
    memory_tokens: u64,
    evicted_tokens: u64,
    expected_accepted: f64,
    accepted_by_source: Vec<u64>,
    calibration: Vec<(u64, f64, u64)>,
    offered_steps: u64,
    offered_tokens: u64,
    step_ms_total: f64,
    holdout_steps: u64,
    holdout_tokens: u64,
    holdout_ms_total: f64,
}

impl Load {
    pub(super) fn new(load: &core::Load) -> Self {
        Self {
            running: load.running,
            waiting: load.waiting,
            pages_used: load.pages_used,
            pages_total: load.pages_total,
            memory_bytes: load.memory_bytes,
            steps: load.steps,
            drafted_tokens: load.drafted_tokens,
            accepted_tokens: load.accepted_tokens,
            prompt_tokens: load.prompt_tokens,
            generated_tokens: load.generated_tokens,
            preemptions: load.preemptions,
            corpus_bytes: load.corpus_bytes,
            memory_tokens: load.memory_tokens,
            evicted_tokens: load.evicted_tokens,
            expected_accepted: load.expected_accepted,
            accepted_by_source: load.accepted_by_source.to_vec(),
            calibration: load
                .calibration
                .iter()
                .map(|bin| (bin.trials, bin.expected, bin.actual))
                .collect(),
            offered_steps: load.offered_steps,
            offered_tokens: load.offered_tokens,
            step_ms_total: load.step_ms_total,
            holdout_steps: load.holdout_steps,
            holdout_tokens: load.holdout_tokens,
            holdout_ms_total: load.holdout_ms_total,
        }
    }
}
