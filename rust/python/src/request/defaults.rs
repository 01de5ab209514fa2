//! A model's own sampling numbers.

use pyo3::prelude::*;
use spectrie_request::SamplingDefaults;

use super::error::ModelError;

/// Content of `generation_config.json`; see the stub file.
#[pyclass(frozen, module = "spectrie._core")]
pub(super) struct GenerationConfig {
    pub(super) defaults: SamplingDefaults,
    /// Members that are not used, with their numbers.
    #[pyo3(get)]
    unused: Vec<(&'static str, f64)>,
}

#[pymethods]
impl GenerationConfig {
    #[new]
    fn new(content: &[u8]) -> PyResult<Self> {
        let (defaults, unused) = SamplingDefaults::read(content).map_err(ModelError::new_err)?;
        Ok(Self { defaults, unused })
    }
}
