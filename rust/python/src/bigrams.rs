//! Python face of `spectrie_trie::Bigrams`.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::replay::trie_error;

/// What a model says after each token alone; see the stub file.
#[pyclass(frozen, module = "spectrie._core")]
pub(crate) struct Bigrams {
    pub(crate) table: Arc<spectrie_trie::Bigrams>,
}

#[pymethods]
impl Bigrams {
    #[new]
    fn new(ids: Vec<Vec<u32>>, probabilities: Vec<Vec<f32>>) -> PyResult<Self> {
        let rows = ids.len();
        let mut lengths = ids
            .iter()
            .map(Vec::len)
            .chain(probabilities.iter().map(Vec::len));
        if probabilities.len() != rows || lengths.any(|length| length != spectrie_trie::TOP_K) {
            let message = format!(
                "{rows} rows of ids and {} of probabilities: expected as many of both, each of {}",
                probabilities.len(),
                spectrie_trie::TOP_K,
            );
            return Err(PyValueError::new_err(message));
        }
        let table = spectrie_trie::Bigrams::from_rows(&ids.concat(), &probabilities.concat());
        Ok(Self {
            table: Arc::new(table.map_err(trie_error)?),
        })
    }

    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf, fingerprint: &str) -> PyResult<Self> {
        let table = py.detach(|| spectrie_trie::Bigrams::open(&path, fingerprint));
        Ok(Self {
            table: Arc::new(table.map_err(trie_error)?),
        })
    }

    fn save(&self, py: Python<'_>, path: PathBuf, fingerprint: &str) -> PyResult<()> {
        py.detach(|| self.table.save(&path, fingerprint))
            .map_err(trie_error)
    }

    /// Ids and probabilities, one row per token.
    fn rows(&self) -> (Vec<Vec<u32>>, Vec<Vec<f32>>) {
        let (ids, probabilities) = self.table.to_rows();
        let ids = ids.chunks(spectrie_trie::TOP_K).map(<[u32]>::to_vec);
        let given = probabilities.chunks(spectrie_trie::TOP_K);
        (ids.collect(), given.map(<[f32]>::to_vec).collect())
    }

    #[getter]
    fn num_known(&self) -> usize {
        self.table.num_known()
    }

    fn __len__(&self) -> usize {
        self.table.num_tokens()
    }
}

/// Adds this file's class to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Bigrams>()
}
