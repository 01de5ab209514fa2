//! Outputs, ends and load as Python reads them.

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use spectrie_engine as core;
use spectrie_sampling as sampling;

use crate::enums::{finish_kind, source};

/// Why and how a request ended.
#[pyclass(frozen, get_all, name = "Finish", module = "spectrie._core")]
pub(crate) struct Finish {
    pub(crate) kind: Py<PyAny>,
    pub(crate) message: Option<String>,
    pub(crate) verify_steps: u32,
    pub(crate) drafted_tokens: u32,
    pub(crate) accepted_tokens: u32,
    pub(crate) accepted_by_source: Vec<u32>,
    pub(crate) queue_ns: u64,
    pub(crate) prefill_ns: u64,
    pub(crate) decode_ns: u64,
    pub(crate) cached_tokens: u32,
    pub(crate) preemptions: u32,
    pub(crate) accepted_prediction_tokens: u32,
}

impl Finish {
    pub(super) fn new(py: Python<'_>, finish: core::Finish) -> Self {
        let stats = finish.stats;
        Self {
            kind: finish_kind(py, finish.kind),
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

/// What the model thought of one token.
#[pyclass(frozen, get_all, name = "TokenLogprobs", module = "spectrie._core")]
pub(crate) struct TokenLogprobs {
    token_id: u32,
    logprob: f32,
    top_ids: Vec<u32>,
    top_logprobs: Vec<f32>,
}

impl TokenLogprobs {
    /// Those of an answer's tokens.
    pub(crate) fn list(known: Option<&[sampling::TokenLogprobs]>) -> Option<Vec<Self>> {
        known.map(|known| known.iter().map(Self::new).collect())
    }

    /// Those of a prompt's tokens.
    pub(crate) fn optional_list(
        known: Option<&[Option<sampling::TokenLogprobs>]>,
    ) -> Option<Vec<Option<Self>>> {
        known.map(|known| {
            let each = known.iter().map(Option::as_ref);
            each.map(|entry| entry.map(Self::new)).collect()
        })
    }

    fn new(told: &sampling::TokenLogprobs) -> Self {
        Self {
            token_id: told.token,
            logprob: told.logprob,
            top_ids: told.top.iter().map(|&(token, _)| token).collect(),
            top_logprobs: told.top.iter().map(|&(_, logprob)| logprob).collect(),
        }
    }
}

/// What requests emitted: tokens of request i are `token_ids[token_indptr[i]:token_indptr[i + 1]]`.
#[pyclass(frozen, name = "StepOutput", module = "spectrie._core")]
pub(crate) struct StepOutput {
    #[pyo3(get)]
    handles: Vec<u64>,
    #[pyo3(get)]
    token_indptr: Vec<usize>,
    #[pyo3(get)]
    token_ids: Vec<u32>,
    /// Numbers of `spectrie_types::Source`.
    sources: Vec<u8>,
    #[pyo3(get)]
    finishes: Vec<Option<Py<Finish>>>,
    logprobs: Vec<Option<Vec<sampling::TokenLogprobs>>>,
    prompt_logprobs: Vec<Option<Vec<Option<sampling::TokenLogprobs>>>>,
}

impl StepOutput {
    pub(super) fn new(py: Python<'_>, outputs: Vec<core::RequestOutput>) -> PyResult<Self> {
        let mut step = Self {
            handles: Vec::with_capacity(outputs.len()),
            token_indptr: vec![0],
            token_ids: Vec::new(),
            sources: Vec::new(),
            finishes: Vec::with_capacity(outputs.len()),
            logprobs: Vec::with_capacity(outputs.len()),
            prompt_logprobs: Vec::with_capacity(outputs.len()),
        };
        for output in outputs {
            step.handles.push(output.handle);
            step.token_ids.extend(output.token_ids);
            step.sources.extend(output.sources);
            step.token_indptr.push(step.token_ids.len());
            step.logprobs.push(output.logprobs);
            step.prompt_logprobs.push(output.prompt_logprobs);
            let finish = output
                .finish
                .map(|finish| Py::new(py, Finish::new(py, finish)))
                .transpose()?;
            step.finishes.push(finish);
        }
        Ok(step)
    }
}

/// What one request emitted in a step.
pub(crate) struct RequestStep<'a> {
    pub(crate) token_ids: &'a [u32],
    /// Numbers of `spectrie_types::Source`.
    pub(crate) sources: &'a [u8],
    pub(crate) logprobs: Option<&'a [sampling::TokenLogprobs]>,
    pub(crate) prompt_logprobs: Option<&'a [Option<sampling::TokenLogprobs>]>,
    pub(crate) finish: Option<&'a Finish>,
}

impl StepOutput {
    /// The part of the `index`-th request.
    pub(crate) fn of_request(&self, index: usize) -> PyResult<RequestStep<'_>> {
        let span =
            *of_request(&self.token_indptr, index)?..*of_request(&self.token_indptr, index + 1)?;
        Ok(RequestStep {
            token_ids: &self.token_ids[span.clone()],
            sources: &self.sources[span],
            logprobs: of_request(&self.logprobs, index)?.as_deref(),
            prompt_logprobs: of_request(&self.prompt_logprobs, index)?.as_deref(),
            finish: of_request(&self.finishes, index)?.as_ref().map(Py::get),
        })
    }
}

#[pymethods]
impl StepOutput {
    #[getter]
    fn sources(&self, py: Python<'_>) -> Vec<Py<PyAny>> {
        let numbers = self.sources.iter();
        numbers.map(|number| source(py, *number)).collect()
    }

    fn logprobs(&self, index: usize) -> PyResult<Option<Vec<TokenLogprobs>>> {
        let known = of_request(&self.logprobs, index)?;
        Ok(TokenLogprobs::list(known.as_deref()))
    }

    fn prompt_logprobs(&self, index: usize) -> PyResult<Option<Vec<Option<TokenLogprobs>>>> {
        let known = of_request(&self.prompt_logprobs, index)?;
        Ok(TokenLogprobs::optional_list(known.as_deref()))
    }
}

fn of_request<T>(values: &[T], index: usize) -> PyResult<&T> {
    values.get(index).ok_or_else(|| {
        let num_requests = values.len();
        PyIndexError::new_err(format!(
            "request {index} of this step; allowed: below {num_requests}"
        ))
    })
}

/// How busy an engine is.
#[pyclass(frozen, get_all, name = "Load", module = "spectrie._core")]
pub(super) struct Load {
    running: usize,
    waiting: usize,
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
    drafting_ms_total: f64,
    choices_total: u64,
    choices_right: u64,
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
            pages_cached: load.pages_cached,
            pages_total: load.pages_total,
            memory_bytes: load.memory_bytes,
            steps: load.steps,
            drafted_tokens: load.drafted_tokens,
            accepted_tokens: load.accepted_tokens,
            prompt_tokens: load.prompt_tokens,
            generated_tokens: load.generated_tokens,
            preemptions: load.preemptions,
            prefix_query_tokens: load.prefix_query_tokens,
            prefix_hit_tokens: load.prefix_hit_tokens,
            drafting_ms_total: load.drafting_ms_total,
            choices_total: load.choices_total,
            choices_right: load.choices_right,
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
