//! What a step adds to an answer of `LLM`, and the end of the answer.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use spectrie_proto::v1;
use spectrie_proto::v1::finished::StopReason;
use spectrie_types::Source;

use crate::engine::TokenLogprobs;

/// What one step gave a choice; see the stub file.
#[pyclass(frozen, get_all, module = "spectrie._core")]
pub(super) struct AnswerPiece {
    pub(super) text: String,
    pub(super) token_ids: Vec<u32>,
    pub(super) sources: Vec<u32>,
    pub(super) logprobs: Option<Vec<TokenLogprobs>>,
    pub(super) end: Option<AnswerEnd>,
}

/// The end of a complete answer; see the stub file.
#[pyclass(frozen, module = "spectrie._core")]
#[derive(Clone)]
pub(super) struct AnswerEnd(pub(super) v1::Finished);

#[pymethods]
impl AnswerEnd {
    #[getter]
    fn reason(&self) -> &'static str {
        match self.0.reason() {
            v1::FinishReason::Length => "length",
            _ => "stop",
        }
    }

    #[getter]
    fn stop_text(&self) -> Option<&str> {
        match &self.0.stop_reason {
            Some(StopReason::StopText(text)) => Some(text),
            _ => None,
        }
    }

    #[getter]
    fn stop_token_id(&self) -> Option<u32> {
        match self.0.stop_reason {
            Some(StopReason::StopTokenId(id)) => Some(id),
            _ => None,
        }
    }

    /// Tokens of the prompt, of the answer, of the prompt's cached beginning, of the prediction that
    /// came true, and the prediction's others.
    #[getter]
    fn usage(&self) -> (u32, u32, u32, Option<u32>, Option<u32>) {
        let usage = self.0.usage.unwrap_or_default();
        (
            usage.prompt_tokens,
            usage.completion_tokens,
            usage.cached_tokens,
            usage.accepted_prediction_tokens,
            usage.rejected_prediction_tokens,
        )
    }

    /// Verify steps, tokens drafted, tokens accepted, and those by source.
    #[getter]
    fn speculation<'py>(&self, py: Python<'py>) -> PyResult<(u32, u32, u32, Bound<'py, PyDict>)> {
        let stats = self.0.speculation.clone().unwrap_or_default();
        let by_source = PyDict::new(py);
        for count in stats.accepted_by_source {
            let number = u8::try_from(count.source).ok();
            if let Some(source) = number.and_then(Source::from_number) {
                by_source.set_item(source.name(), count.tokens)?;
            }
        }
        let (steps, drafted) = (stats.verify_steps, stats.drafted_tokens);
        Ok((steps, drafted, stats.accepted_tokens, by_source))
    }

    /// Nanoseconds in the queue, in prefill and in decoding.
    #[getter]
    fn timing(&self) -> (u64, u64, u64) {
        let timing = self.0.timing.unwrap_or_default();
        (timing.queue_ns, timing.prefill_ns, timing.decode_ns)
    }
}
