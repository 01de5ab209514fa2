//! The engine's request from a worker's order to begin.

use prost::Message as _;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use spectrie_engine as core;
use spectrie_proto::worker_v1;
use spectrie_proto::worker_v1::structured::Constraint;
use spectrie_types::options::SamplingParameters;
use spectrie_types::{SpeculationMode, each_sampling_option};

use crate::grammar::Grammar;
use crate::stops::stop_finder;
use crate::text::Tokenizer;

/// One choice of a request, begun or resumed.
#[pyclass(frozen, name = "Request", module = "spectrie._core")]
pub(crate) struct Request(pub(crate) core::Request);

#[pymethods]
impl Request {
    #[new]
    #[pyo3(signature = (start, *, handle, now_s=0.0, now_unix_s=0.0, speculate=true, grammar=None, tokenizer=None))]
    fn new(
        start: &[u8],
        handle: u64,
        now_s: f64,
        now_unix_s: f64,
        speculate: bool,
        grammar: Option<&Grammar>,
        tokenizer: Option<&Tokenizer>,
    ) -> PyResult<Self> {
        let start = decode(start)?;
        let stops = tokenizer.map(|tokenizer| {
            let tokenizer = &tokenizer.files.tokenizer;
            stop_finder(tokenizer, &start.stop, start.skip_special_tokens)
        });
        let stops = stops
            .transpose()
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        let deadline_s = start
            .deadline_ms
            .map(|deadline_ms| now_s + deadline_ms as f64 / 1e3 - now_unix_s);
        let grammar = grammar.map(|grammar| grammar.grammar.clone());
        let mut request = engine_request(start, handle, deadline_s, grammar, stops.flatten());
        if !speculate {
            request.speculation = Some(SpeculationMode::Off);
        }
        Ok(Self(request))
    }

    #[getter]
    fn handle(&self) -> u64 {
        self.0.handle
    }
}

/// A kind of constraint, and its text or texts.
pub(crate) type KindAndTexts = (&'static str, Option<Texts>);

/// The text or texts of a constraint.
#[derive(IntoPyObject)]
pub(crate) enum Texts {
    One(String),
    Many(Vec<String>),
}

/// What the answer to a `Start` is held to; see the stub file.
#[pyfunction]
pub(crate) fn constraint_of(start: &[u8]) -> PyResult<Option<KindAndTexts>> {
    let structured = decode(start)?.structured;
    structured.map(kind_and_texts).transpose()
}

/// A constraint as the compiler takes it.
pub(crate) fn kind_and_texts(structured: worker_v1::Structured) -> PyResult<KindAndTexts> {
    let constraint = structured.constraint.ok_or_else(|| {
        let message = "structured: given a constraint of a kind that this worker does not know";
        PyValueError::new_err(message)
    })?;
    Ok(match constraint {
        Constraint::JsonSchema(text) => ("json_schema", Some(Texts::One(text))),
        Constraint::JsonObject(_) => ("json_object", None),
        Constraint::Regex(text) => ("regex", Some(Texts::One(text))),
        Constraint::Grammar(text) => ("grammar", Some(Texts::One(text))),
        Constraint::Choice(choices) => ("choice", Some(Texts::Many(choices.texts))),
    })
}

/// Numbers of the wire; a 0 that is not allowed is one that the router does not know.
macro_rules! numbers {
    ($sampling:expr, $table:expr; $($field:ident: $type:ty,)+) => {
        SamplingParameters {
            $( $field: if is_unknown(stringify!($field), f64::from($sampling.$field)) {
                $table.$field
            } else {
                $sampling.$field
            }, )+
            logit_bias: $sampling.logit_bias.into_iter().collect(),
        }
    };
}

fn is_unknown(name: &str, value: f64) -> bool {
    let mut rows = SamplingParameters::rows().iter();
    let row = rows.find(|row| row.field == name);
    value == 0.0 && row.is_some_and(|row| !row.allows(value))
}

/// The engine's form of an order.
pub(crate) fn engine_request(
    start: worker_v1::Start,
    handle: u64,
    deadline_s: Option<f64>,
    grammar: Option<spectrie_sampling::Grammar>,
    stops: Option<Box<dyn core::StopFinder>>,
) -> core::Request {
    let sampling = start.sampling.unwrap_or_default();
    let table = SamplingParameters::default();
    core::Request {
        handle,
        prompt_ids: start.prompt_ids,
        emitted_token_ids: start.emitted_token_ids,
        prediction_ids: start.prediction_ids,
        namespace: start.namespace,
        learn: start.learn,
        sampling: each_sampling_option!(numbers, sampling, table),
        bad_words: sampling
            .bad_words
            .into_iter()
            .map(|word| word.ids)
            .collect(),
        logprobs: start.logprobs,
        prompt_logprobs: start.prompt_logprobs,
        choice_seed: start.choice_seed,
        max_tokens: start.max_tokens,
        min_tokens: start.min_tokens,
        stop_token_ids: start.stop_token_ids,
        ignore_eos: start.ignore_eos,
        deadline_s,
        priority: start.priority,
        tenant: start.tenant,
        speculation: start.speculation.map(mode),
        max_draft_tokens: start.max_draft_tokens,
        grammar,
        stops,
    }
}

/// The mode of a number on the wire; one that this worker does not know counts as `auto`.
fn mode(number: i32) -> SpeculationMode {
    use worker_v1::SpeculationMode as Wire;
    match Wire::try_from(number) {
        Ok(Wire::Off) => SpeculationMode::Off,
        Ok(Wire::Bfs) => SpeculationMode::Bfs,
        Ok(Wire::Prob) => SpeculationMode::Prob,
        Ok(Wire::Tiers) => SpeculationMode::Tiers,
        Ok(Wire::Eagle2) => SpeculationMode::Eagle2,
        Ok(Wire::Chain) => SpeculationMode::Chain,
        Ok(Wire::Auto) | Err(_) => SpeculationMode::Auto,
    }
}

fn decode(start: &[u8]) -> PyResult<worker_v1::Start> {
    worker_v1::Start::decode(start)
        .map_err(|error| PyValueError::new_err(format!("not a Start message: {error}")))
}

/// Adds this file's class and function to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Request>()?;
    module.add_function(wrap_pyfunction!(constraint_of, module)?)
}
