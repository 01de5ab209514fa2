//! Requests as Python makes them.

use std::collections::HashMap;

use pyo3::prelude::*;
use spectrie_engine as core;
use spectrie_types::options::SamplingParameters;

use super::engine_error;
use crate::grammar::Grammar;

/// One choice of a request, begun or resumed.
#[pyclass(frozen, name = "Request", module = "spectrie._core")]
pub(super) struct Request(pub(super) core::Request);

#[pymethods]
impl Request {
    #[new]
    #[pyo3(signature = (*, handle, prompt_ids, max_tokens, emitted_token_ids=vec![], prediction_ids=vec![],
        namespace="default".to_owned(), learn=true, temperature=1.0, top_p=1.0, top_k=0, min_p=0.0,
        frequency_penalty=0.0, presence_penalty=0.0, repetition_penalty=1.0, logit_bias=HashMap::new(), seed=0,
        min_tokens=0, stop_token_ids=vec![], ignore_eos=false, deadline_s=None, priority=0, speculation=None,
        max_draft_tokens=None, typical_p=1.0, bad_words=vec![], logprobs=None, prompt_logprobs=None,
        grammar=None, tenant=None))]
    #[expect(clippy::too_many_arguments, reason = "keywords of the Python class")]
    fn new(
        handle: u64,
        prompt_ids: Vec<u32>,
        max_tokens: u32,
        emitted_token_ids: Vec<u32>,
        prediction_ids: Vec<u32>,
        namespace: String,
        learn: bool,
        temperature: f32,
        top_p: f32,
        top_k: u32,
        min_p: f32,
        frequency_penalty: f32,
        presence_penalty: f32,
        repetition_penalty: f32,
        logit_bias: HashMap<u32, f32>,
        seed: u64,
        min_tokens: u32,
        stop_token_ids: Vec<u32>,
        ignore_eos: bool,
        deadline_s: Option<f64>,
        priority: i32,
        speculation: Option<&str>,
        max_draft_tokens: Option<u32>,
        typical_p: f32,
        bad_words: Vec<Vec<u32>>,
        logprobs: Option<u32>,
        prompt_logprobs: Option<u32>,
        grammar: Option<&Grammar>,
        tenant: Option<String>,
    ) -> PyResult<Self> {
        let speculation = speculation
            .map(str::parse)
            .transpose()
            .map_err(engine_error)?;
        Ok(Self(core::Request {
            handle,
            prompt_ids,
            emitted_token_ids,
            prediction_ids,
            namespace,
            learn,
            sampling: SamplingParameters {
                temperature,
                top_p,
                top_k,
                min_p,
                typical_p,
                frequency_penalty,
                presence_penalty,
                repetition_penalty,
                logit_bias: logit_bias.into_iter().collect(),
            },
            bad_words,
            logprobs,
            prompt_logprobs,
            choice_seed: seed,
            max_tokens,
            min_tokens,
            stop_token_ids,
            ignore_eos,
            deadline_s,
            priority,
            tenant,
            speculation,
            max_draft_tokens,
            grammar: grammar.map(|grammar| grammar.grammar.clone()),
        }))
    }

    #[getter]
    fn handle(&self) -> u64 {
        self.0.handle
    }
}
