//! Python face of the grammars of `spectrie-sampling`.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use pyo3::exceptions::PyTimeoutError;
use pyo3::prelude::*;
use spectrie_sampling as sampling;
use spectrie_sampling::GrammarSpec;

use crate::errors::engine_error;
use crate::text::Tokenizer;

/// What the library takes for the beginning of a special token's name.
const SPECIAL_MARK: u8 = 0xff;

/// A compiled constraint.
#[pyclass(frozen, module = "spectrie._core")]
pub(crate) struct Grammar {
    pub(crate) grammar: sampling::Grammar,
}

/// The text or texts of a constraint.
#[derive(FromPyObject)]
enum Texts {
    One(String),
    Many(Vec<String>),
}

/// Compiles constraints for one tokenizer.
#[pyclass(frozen, module = "spectrie._core")]
struct GrammarCompiler {
    compiler: sampling::GrammarCompiler,
}

#[pymethods]
impl GrammarCompiler {
    #[new]
    fn new(py: Python<'_>, tokenizer: &Tokenizer, eos_token_ids: Vec<u32>) -> PyResult<Self> {
        let tokenizer = tokenizer.files.tokenizer.clone();
        let compiler = py.detach(|| {
            let bytes = (0..tokenizer.vocabulary_size() as u32).map(|id| {
                let bytes = tokenizer.token_bytes(id).unwrap_or_default();
                if tokenizer.is_special_token(id) {
                    [&[SPECIAL_MARK], &bytes[..]].concat()
                } else {
                    bytes
                }
            });
            let bytes = bytes.collect();
            let encode = move |text: &str| tokenizer.encode(text, false).unwrap_or_default();
            sampling::GrammarCompiler::with_tokenizer(bytes, &eos_token_ids, encode)
        });
        Ok(Self {
            compiler: compiler.map_err(engine_error)?,
        })
    }

    #[pyo3(signature = (kind, text=None, timeout_s=None))]
    fn compile(
        &self,
        py: Python<'_>,
        kind: &str,
        text: Option<Texts>,
        timeout_s: Option<f64>,
    ) -> PyResult<Grammar> {
        let spec = spec(kind, text)?;
        let began = Instant::now();
        let interrupt = Mutex::new(None);
        let goes_on = || {
            let late = timeout_s.is_some_and(|limit_s| began.elapsed().as_secs_f64() >= limit_s);
            let error = if late {
                let message = format!("{kind} was not compiled in time");
                Some(PyTimeoutError::new_err(message))
            } else {
                Python::attach(|py| py.check_signals().err())
            };
            let goes_on = error.is_none();
            *interrupt.lock().unwrap_or_else(PoisonError::into_inner) = error;
            goes_on
        };
        let compiled = py.detach(|| self.compiler.compile_while(&spec, &goes_on));
        match compiled {
            Ok(grammar) => Ok(Grammar { grammar }),
            Err(error) => Err(interrupt
                .into_inner()
                .unwrap_or_else(PoisonError::into_inner)
                .unwrap_or_else(|| engine_error(error))),
        }
    }

    #[pyo3(signature = (kind, text=None))]
    fn cached(&self, kind: &str, text: Option<Texts>) -> PyResult<Option<Grammar>> {
        let grammar = self.compiler.cached(&spec(kind, text)?);
        Ok(grammar.map(|grammar| Grammar { grammar }))
    }
}

fn spec(kind: &str, text: Option<Texts>) -> PyResult<GrammarSpec> {
    let texts = match text {
        None => Vec::new(),
        Some(Texts::One(text)) => vec![text],
        Some(Texts::Many(texts)) => texts,
    };
    GrammarSpec::parse(kind, texts).map_err(engine_error)
}

/// Adds this file's classes to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Grammar>()?;
    module.add_class::<GrammarCompiler>()
}
