//! Python face of `spectrie_trie::Bigrams`.

use std::path::PathBuf;
use std::sync::Arc;

use numpy::ndarray::Array2;
use numpy::{Element, IntoPyArray, PyArray2, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use spectrie_trie::TokenId;
use spectrie_types::sizes::TOP_K;

use crate::errors::trie_error;

/// What a model says after each token alone; see the stub file.
#[pyclass(frozen, module = "spectrie._core")]
pub(crate) struct Bigrams {
    pub(crate) table: Arc<spectrie_trie::Bigrams>,
}

type Rows<'py> = (Bound<'py, PyArray2<i32>>, Bound<'py, PyArray2<f32>>);

#[pymethods]
impl Bigrams {
    #[new]
    fn new(
        py: Python<'_>,
        ids: PyReadonlyArray2<'_, i32>,
        probabilities: PyReadonlyArray2<'_, f32>,
    ) -> PyResult<Self> {
        let (ids, probabilities) = (ids.as_array(), probabilities.as_array());
        if ids.dim() != probabilities.dim() || ids.ncols() != TOP_K {
            let message = format!(
                "ids are {:?} and probabilities {:?}: expected [vocabulary, {TOP_K}] of both",
                ids.dim(),
                probabilities.dim(),
            );
            return Err(PyValueError::new_err(message));
        }
        let ids: Vec<i32> = ids.iter().copied().collect();
        let probabilities: Vec<f32> = probabilities.iter().copied().collect();
        py.detach(|| {
            let ids = ids.into_iter().map(token).collect::<PyResult<Vec<_>>>()?;
            let table = spectrie_trie::Bigrams::from_rows(&ids, &probabilities);
            Ok(Self {
                table: Arc::new(table.map_err(trie_error)?),
            })
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

    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Rows<'py>> {
        let (ids, probabilities) = self.table.to_rows();
        let ids = ids.into_iter().map(|id| id as i32).collect();
        Ok((matrix(py, ids)?, matrix(py, probabilities)?))
    }

    #[getter]
    fn num_known(&self) -> usize {
        self.table.num_known()
    }

    fn __len__(&self) -> usize {
        self.table.num_tokens()
    }
}

fn token(id: i32) -> PyResult<TokenId> {
    TokenId::try_from(id)
        .map_err(|_| PyValueError::new_err(format!("ids hold {id}: expected 0 or more")))
}

/// Rows of [`TOP_K`] numbers.
fn matrix<T: Element>(py: Python<'_>, numbers: Vec<T>) -> PyResult<Bound<'_, PyArray2<T>>> {
    Array2::from_shape_vec((numbers.len() / TOP_K, TOP_K), numbers)
        .map(|rows| rows.into_pyarray(py))
        .map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Adds this file's class to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Bigrams>()
}
