//! One answer of `LLM`, from its order to its last token.

use std::sync::{Arc, Mutex, MutexGuard};

use pyo3::prelude::*;
use spectrie_engine::{Finish, StopFinder};
use spectrie_proto::worker_v1::FinishKind;
use spectrie_request::{Answer, AnswerDelta, Refusal, ResolvedRequest, answer};
use spectrie_sampling as sampling;
use spectrie_text::TextFiles;

use super::error::ended_badly;
use super::piece::{AnswerEnd, AnswerPiece};
use crate::engine::{StepOutput, TokenLogprobs, wire_stats};
use crate::grammar::Grammar;
use crate::lock::lock;
use crate::start::{Request, engine_request};
use crate::stops::stop_finder;

/// One choice of a resolved request; see the stub file.
#[pyclass(frozen, module = "spectrie._core")]
pub(super) struct Choice {
    request: Arc<ResolvedRequest>,
    #[pyo3(get)]
    index: u32,
    grammar: Option<sampling::Grammar>,
    stops: Option<Box<dyn StopFinder>>,
    #[pyo3(get)]
    timeout_s: Option<f64>,
    progress: Mutex<Progress>,
}

/// What has come so far.
struct Progress {
    answer: Answer,
    text: String,
    token_ids: Vec<u32>,
    sources: Vec<u32>,
    logprobs: Option<Vec<TokenLogprobs>>,
    prompt_logprobs: Option<Vec<Option<sampling::TokenLogprobs>>>,
}

impl Choice {
    /// # Errors
    /// A stop text that the detokenizer does not take.
    pub(super) fn new(
        files: &TextFiles,
        request: &Arc<ResolvedRequest>,
        index: u32,
        grammar: Option<&Py<Grammar>>,
        timeout_s: Option<f64>,
    ) -> Result<Self, Refusal> {
        let (stop, output) = (&request.stopping.stop, &request.output);
        let stops = stop_finder(&files.tokenizer, stop, output.skip_special_tokens)
            .map_err(|error| Refusal::invalid("stopping.stop", error.to_string()))?;
        Ok(Self {
            request: request.clone(),
            index,
            grammar: grammar.map(|grammar| grammar.get().grammar.clone()),
            stops,
            timeout_s,
            progress: Mutex::new(Progress {
                answer: Answer::new(&files.tokenizer, request)?,
                text: String::new(),
                token_ids: Vec::new(),
                sources: Vec::new(),
                logprobs: None,
                prompt_logprobs: None,
            }),
        })
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        lock(&self.progress)
    }

    /// # Errors
    /// The request ended without an answer.
    fn end(&self, py: Python<'_>, answer: &Answer, finish: &Finish) -> PyResult<AnswerEnd> {
        let kind = wire_kind(finish);
        let Some(ending) = answer.ending(kind) else {
            let message = finish.message.clone();
            return Err(ended_badly(
                py,
                kind,
                message,
                self.timeout_s,
                &self.request.request_id,
            ));
        };
        let stats = wire_stats(&finish.stats);
        let num_tokens = answer.num_tokens();
        let end = answer::finished(&self.request, self.index, num_tokens, ending, &stats);
        Ok(AnswerEnd(end))
    }
}

#[pymethods]
impl Choice {
    #[getter]
    fn seed(&self) -> u64 {
        self.request.seed
    }

    #[getter]
    fn request_id(&self) -> &str {
        &self.request.request_id
    }

    fn request(&self, handle: u64, now_s: f64) -> Request {
        let start = self.request.start(self.index, 0, None);
        let deadline_s = self.timeout_s.map(|timeout_s| now_s + timeout_s);
        Request(engine_request(
            start,
            handle,
            deadline_s,
            self.grammar.clone(),
            self.stops.clone(),
        ))
    }

    fn take(&self, py: Python<'_>, output: &StepOutput, index: usize) -> PyResult<AnswerPiece> {
        let step = output.of_request(index)?;
        let mut progress = self.progress();
        let kind = step.finish.as_ref().map(wire_kind);
        let delta = AnswerDelta {
            token_ids: step.token_ids.clone(),
            sources: step.sources.iter().copied().map(u32::from).collect(),
            ..Default::default()
        };
        let mut delta = progress.answer.take(delta, kind);
        if !self.request.output.sources {
            delta.sources.clear();
        }
        let mut logprobs = None;
        if let Some(known) = &step.logprobs
            && !delta.token_ids.is_empty()
        {
            let kept = TokenLogprobs::all(&known[..delta.token_ids.len().min(known.len())]);
            progress
                .logprobs
                .get_or_insert_default()
                .extend(kept.clone());
            logprobs = Some(kept);
        }
        if let Some(known) = &step.prompt_logprobs {
            progress.prompt_logprobs = Some(known.clone());
        }
        progress.text.push_str(&delta.text);
        progress.token_ids.extend_from_slice(&delta.token_ids);
        progress.sources.extend_from_slice(&delta.sources);
        let end = step.finish.as_ref();
        let end = end.map(|finish| self.end(py, &progress.answer, finish));
        Ok(AnswerPiece {
            text: delta.text,
            token_ids: delta.token_ids,
            sources: delta.sources,
            logprobs,
            end: end.transpose()?,
        })
    }

    #[getter]
    fn text(&self) -> String {
        self.progress().text.clone()
    }

    #[getter]
    fn token_ids(&self) -> Vec<u32> {
        self.progress().token_ids.clone()
    }

    #[getter]
    fn sources(&self) -> Vec<u32> {
        self.progress().sources.clone()
    }

    #[getter]
    fn logprobs(&self) -> Option<Vec<TokenLogprobs>> {
        self.progress().logprobs.clone()
    }

    #[getter]
    fn prompt_logprobs(&self) -> Option<Vec<Option<TokenLogprobs>>> {
        TokenLogprobs::optional_list(self.progress().prompt_logprobs.as_deref())
    }
}

fn wire_kind(finish: &Finish) -> FinishKind {
    FinishKind::try_from(i32::from(finish.kind.number())).unwrap_or(FinishKind::FinishFailed)
}
