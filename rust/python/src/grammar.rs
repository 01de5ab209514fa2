//! Python face of the grammars of `spectrie-sampling`.

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

    #[pyo3(signature = (kind, text=None))]
    fn compile(&self, py: Python<'_>, kind: &str, text: Option<Texts>) -> PyResult<Grammar> {
        let texts = match text {
            None => Vec::new(),
            Some(Texts::One(text)) => vec![text],
            Some(Texts::Many(texts)) => texts,
        };
        let spec = GrammarSpec::parse(kind, texts).map_err(engine_error)?;
        let grammar = py
            .detach(|| self.compiler.compile(&spec))
            .map_err(engine_error)?;
        Ok(Grammar { grammar })
    }
}

/// Adds this file's classes to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Grammar>()?;
    module.add_class::<GrammarCompiler>()
}
