//! Python face of `spectrie-text`.

use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use spectrie_text::{TemplateOptions, TextError, TextFiles};

pyo3::import_exception!(spectrie.errors, ModelError);

/// Errors of the model's files are `ModelError`, those of the caller's values `ValueError`.
#[allow(clippy::needless_pass_by_value)] // the shape `map_err` wants
fn to_py(error: TextError) -> PyErr {
    let message = error.to_string();
    match error {
        TextError::TemplateRefused { .. }
        | TextError::TemplateFailed { .. }
        | TextError::TemplateEndless { .. }
        | TextError::EmptyStop { .. }
        | TextError::Tokenizer { .. } => PyValueError::new_err(message),
        _ => ModelError::new_err(message),
    }
}

/// A model's tokenizer and chat template.
#[pyclass(frozen, module = "spectrie._core")]
pub(crate) struct Tokenizer {
    pub(crate) files: TextFiles,
}

#[pymethods]
impl Tokenizer {
    #[staticmethod]
    fn from_folder(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let files = py.detach(|| TextFiles::from_folder(&path)).map_err(to_py)?;
        Ok(Self { files })
    }

    #[pyo3(signature = (text, add_special_tokens = false))]
    fn encode(&self, py: Python<'_>, text: &str, add_special_tokens: bool) -> PyResult<Vec<u32>> {
        py.detach(|| self.files.tokenizer.encode(text, add_special_tokens))
            .map_err(to_py)
    }

    #[pyo3(signature = (texts, add_special_tokens = false))]
    fn encode_batch(
        &self,
        py: Python<'_>,
        texts: Vec<String>,
        add_special_tokens: bool,
    ) -> PyResult<Vec<Vec<u32>>> {
        py.detach(|| self.files.tokenizer.encode_batch(texts, add_special_tokens))
            .map_err(to_py)
    }

    #[pyo3(signature = (ids, skip_special_tokens = true))]
    #[allow(clippy::needless_pass_by_value)] // pyo3 extracts an owned list
    fn decode(&self, py: Python<'_>, ids: Vec<u32>, skip_special_tokens: bool) -> PyResult<String> {
        py.detach(|| self.files.tokenizer.decode(&ids, skip_special_tokens))
            .map_err(to_py)
    }

    #[pyo3(signature = (messages, add_generation_prompt = true))]
    fn apply_chat_template(
        &self,
        py: Python<'_>,
        messages: &Bound<'_, PyAny>,
        add_generation_prompt: bool,
    ) -> PyResult<String> {
        let json: String = py
            .import("json")?
            .call_method1("dumps", (messages,))?
            .extract()?;
        let template = self.files.template.as_ref();
        let options = TemplateOptions {
            add_generation_prompt,
            ..TemplateOptions::default()
        };
        py.detach(|| {
            let messages: serde_json::Value = serde_json::from_str(&json)
                .map_err(|error| PyValueError::new_err(error.to_string()))?;
            template
                .ok_or(TextError::NoTemplate)
                .and_then(|template| template.render(&messages, &options))
                .map_err(to_py)
        })
    }

    fn token_id(&self, token: &str) -> Option<u32> {
        self.files.tokenizer.token_id(token)
    }

    #[getter]
    fn vocabulary_size(&self) -> usize {
        self.files.tokenizer.vocabulary_size()
    }
}

/// Identity of a tokenizer; see the stub file.
#[pyfunction]
fn tokenizer_fingerprint(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    py.detach(|| spectrie_text::tokenizer_fingerprint(&path))
        .map_err(to_py)
}

/// Adds this file's classes and functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Tokenizer>()?;
    module.add_function(wrap_pyfunction!(tokenizer_fingerprint, module)?)
}
