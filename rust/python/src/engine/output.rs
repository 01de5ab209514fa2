//! Outputs and ends as Python reads them.

use prost::Message as _;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use spectrie_engine as core;
use spectrie_proto::worker_v1;
use spectrie_sampling as sampling;

use crate::enums::{finish_kind, source};

/// Why and how a request ended.
#[pyclass(frozen, module = "spectrie._core")]
pub(super) struct Finish(core::Finish);

#[pymethods]
impl Finish {
    #[getter]
    fn kind(&self, py: Python<'_>) -> Py<PyAny> {
        finish_kind(py, self.0.kind)
    }

    #[getter]
    fn message(&self) -> Option<&str> {
        self.0.message.as_deref()
    }

    #[getter]
    fn keep_tokens(&self) -> Option<u32> {
        self.0.keep_tokens
    }

    #[getter]
    fn stats<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &wire_stats(&self.0.stats).encode_to_vec())
    }
}

/// The message of a request's counts and durations.
pub(crate) fn wire_stats(stats: &core::RequestStats) -> worker_v1::RequestStats {
    worker_v1::RequestStats {
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
        // The router counts these, over all attempts of a choice.
        accepted_by_position: Vec::new(),
    }
}

/// What the model thought of one token.
#[pyclass(frozen, get_all, module = "spectrie._core")]
#[derive(Clone)]
pub(crate) struct TokenLogprobs {
    token_id: u32,
    logprob: f32,
    top_ids: Vec<u32>,
    top_logprobs: Vec<f32>,
}

impl TokenLogprobs {
    /// Those of an answer's tokens.
    pub(crate) fn all(known: &[sampling::TokenLogprobs]) -> Vec<Self> {
        known.iter().map(Self::new).collect()
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
#[pyclass(frozen, module = "spectrie._core")]
pub(crate) struct StepOutput(pub(crate) Vec<core::RequestOutput>);

impl StepOutput {
    /// The part of the `index`-th request.
    pub(crate) fn of_request(&self, index: usize) -> PyResult<&core::RequestOutput> {
        self.0.get(index).ok_or_else(|| {
            let num_requests = self.0.len();
            PyIndexError::new_err(format!(
                "request {index} of this step; allowed: below {num_requests}"
            ))
        })
    }
}

#[pymethods]
impl StepOutput {
    #[getter]
    fn handles(&self) -> Vec<u64> {
        self.0.iter().map(|output| output.handle).collect()
    }

    #[getter]
    fn token_indptr(&self) -> Vec<usize> {
        let mut ends = vec![0; self.0.len() + 1];
        for (index, output) in self.0.iter().enumerate() {
            ends[index + 1] = ends[index] + output.token_ids.len();
        }
        ends
    }

    #[getter]
    fn token_ids(&self) -> Vec<u32> {
        let each = self.0.iter().flat_map(|output| &output.token_ids);
        each.copied().collect()
    }

    #[getter]
    fn sources(&self, py: Python<'_>) -> Vec<Py<PyAny>> {
        let each = self.0.iter().flat_map(|output| &output.sources);
        each.map(|number| source(py, *number)).collect()
    }

    #[getter]
    fn finishes(&self) -> Vec<Option<Finish>> {
        let each = self.0.iter();
        each.map(|output| output.finish.clone().map(Finish))
            .collect()
    }

    fn logprobs(&self, index: usize) -> PyResult<Option<Vec<TokenLogprobs>>> {
        let known = &self.of_request(index)?.logprobs;
        Ok(known.as_deref().map(TokenLogprobs::all))
    }

    fn prompt_logprobs(&self, index: usize) -> PyResult<Option<Vec<Option<TokenLogprobs>>>> {
        let known = &self.of_request(index)?.prompt_logprobs;
        Ok(TokenLogprobs::optional_list(known.as_deref()))
    }
}
