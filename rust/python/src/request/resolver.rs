//! Options of `LLM` as requests of the engine.

use std::sync::Arc;

use pyo3::exceptions::PyTimeoutError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyMapping;
use spectrie_proto::worker_v1;
use spectrie_proto::worker_v1::FinishKind;
use spectrie_request as core;
use spectrie_request::validate::check_request;
use spectrie_request::{Caller, Model, Naming, ResolvedRequest, SamplingDefaults, Violation};

use super::choice::Choice;
use super::defaults::GenerationConfig;
use super::error::{ended_badly, invalid_argument, named, refused};
use super::fields::Fields;
use super::options::{GivenPrompt, read_request};
use crate::errors::EngineError;
use crate::grammar::Grammar;
use crate::start::kind_and_texts;
use crate::text::Tokenizer;

/// Resolves the requests of one model; see the stub file.
#[pyclass(frozen, module = "spectrie._core")]
pub(super) struct RequestResolver {
    tokenizer: Py<Tokenizer>,
    model: String,
    compile: Py<PyAny>,
    vocabulary_size: u32,
    max_context: u32,
    speculate: bool,
    has_drafter: bool,
    defaults: SamplingDefaults,
}

#[pymethods]
impl RequestResolver {
    #[new]
    #[pyo3(signature = (tokenizer, *, model, vocabulary_size, max_context, compile, speculate=true,
        has_drafter=false, generation_config=None))]
    #[expect(clippy::too_many_arguments, reason = "one of each keyword in Python")]
    fn new(
        tokenizer: Py<Tokenizer>,
        model: String,
        vocabulary_size: u32,
        max_context: u32,
        compile: Py<PyAny>,
        speculate: bool,
        has_drafter: bool,
        generation_config: Option<&GenerationConfig>,
    ) -> Self {
        let defaults = generation_config.map(|config| config.defaults.clone());
        Self {
            tokenizer,
            model,
            compile,
            vocabulary_size,
            max_context,
            speculate,
            has_drafter,
            defaults: defaults.unwrap_or_default(),
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.tokenizer)?;
        visit.call(&self.compile)
    }

    #[pyo3(signature = (prompt, prompt_token_ids, messages, options, n=None))]
    fn resolve<'py>(
        &self,
        py: Python<'py>,
        prompt: Option<Bound<'py, PyAny>>,
        prompt_token_ids: Option<Bound<'py, PyAny>>,
        messages: Option<Bound<'py, PyAny>>,
        options: &Bound<'py, PyMapping>,
        n: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Vec<Choice>> {
        let given = GivenPrompt {
            text: prompt,
            token_ids: prompt_token_ids,
            messages,
        };
        let mut fields = Fields::new(options);
        let request = read_request(&mut fields, &given, n.as_ref())?;
        let timeout_s = read_timeout(&mut fields);
        let mut violations = fields.violations;
        violations.extend(named(check_request(&request, Some(self.vocabulary_size))));
        if !violations.is_empty() {
            return Err(invalid_argument(py, &violations));
        }

        let request_id = request.request_id.clone();
        let request_id =
            request_id.unwrap_or_else(|| format!("local-{:016x}", rand::random::<u64>()));
        let files = &self.tokenizer.get().files;
        let resolved = py.detach(|| {
            let model = Model {
                name: &self.model,
                vocabulary_size: self.vocabulary_size,
                max_context: self.max_context,
                text: files,
                defaults: &self.defaults,
            };
            let caller = Caller {
                tenant: None,
                naming: Naming::Tenants,
            };
            core::resolve(request_id, request, model, caller)
        });
        let mut resolved = resolved.map_err(|refusal| refused(py, refusal))?;
        if !self.speculate {
            resolved.speculation = Some(worker_v1::SpeculationMode::Off);
        }
        let drafter = resolved.check_drafter(self.has_drafter);
        drafter.map_err(|refusal| refused(py, refusal))?;
        let grammar = self.grammar(py, &resolved, timeout_s)?;
        let resolved = Arc::new(resolved);
        (0..resolved.num_choices)
            .map(|index| Choice::new(files, &resolved, index, grammar.as_ref(), timeout_s))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|refusal| refused(py, refusal))
    }
}

impl RequestResolver {
    /// Compiles what the answer is held to, within the request's time.
    fn grammar(
        &self,
        py: Python<'_>,
        resolved: &ResolvedRequest,
        timeout_s: Option<f64>,
    ) -> PyResult<Option<Py<Grammar>>> {
        let Some(structured) = resolved.structured.clone() else {
            return Ok(None);
        };
        let (kind, texts) = kind_and_texts(structured)?;
        match self.compile.bind(py).call1((kind, texts, timeout_s)) {
            Ok(grammar) => Ok(Some(grammar.cast_into::<Grammar>()?.unbind())),
            Err(error) if error.is_instance_of::<EngineError>(py) => {
                let message = error.value(py).to_string();
                let message = message
                    .strip_prefix(&format!("{kind} "))
                    .unwrap_or(&message);
                Err(invalid_argument(py, &[Violation::new(kind, message)]))
            }
            Err(error) if error.is_instance_of::<PyTimeoutError>(py) => {
                let kind = FinishKind::FinishDeadline;
                Err(ended_badly(py, kind, None, timeout_s, &resolved.request_id))
            }
            Err(error) => Err(error),
        }
    }
}

/// Seconds for the whole request, if it sets them.
fn read_timeout(fields: &mut Fields<'_, '_>) -> Option<f64> {
    const ALLOWED: &str = "a number of seconds above 0, up to 1e9";
    let timeout_s = fields.number("timeout")?;
    if timeout_s > 0.0 && timeout_s <= 1e9 {
        return Some(timeout_s);
    }
    let message = format!("given {timeout_s}; allowed: {ALLOWED}");
    fields.violations.push(Violation::new("timeout", message));
    None
}
