//! Python face of corpora: building files and reading their facts.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use spectrie_trie::Corpus;

use crate::errors::trie_error;

/// What a corpus file holds; see the stub file.
#[pyclass(frozen, get_all, module = "spectrie._core")]
struct CorpusFile {
    name: String,
    fingerprint: String,
    num_tokens: u64,
    num_documents: u64,
    bytes: usize,
}

/// Gathers documents for one corpus; see the stub file.
#[pyclass(frozen, module = "spectrie._core")]
struct CorpusBuilder {
    fingerprint: String,
    /// `None` once it was written.
    builder: Mutex<Option<spectrie_trie::CorpusBuilder>>,
}

impl CorpusBuilder {
    fn lock(&self) -> MutexGuard<'_, Option<spectrie_trie::CorpusBuilder>> {
        self.builder.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn finished() -> PyErr {
    PyValueError::new_err("the corpus was written already: make another CorpusBuilder")
}

#[pymethods]
impl CorpusBuilder {
    #[new]
    fn new(name: &str, fingerprint: &str) -> PyResult<Self> {
        let builder = spectrie_trie::CorpusBuilder::new(name, fingerprint).map_err(trie_error)?;
        Ok(Self {
            fingerprint: fingerprint.to_owned(),
            builder: Mutex::new(Some(builder)),
        })
    }

    fn push(&self, py: Python<'_>, document: Vec<u32>) -> PyResult<()> {
        py.detach(|| match self.lock().as_mut() {
            Some(builder) => builder.push(&document).map_err(trie_error),
            None => Err(finished()),
        })
    }

    #[getter]
    fn num_tokens(&self) -> PyResult<u64> {
        self.lock()
            .as_ref()
            .map(spectrie_trie::CorpusBuilder::num_tokens)
            .ok_or_else(finished)
    }

    fn finish(&self, py: Python<'_>, path: PathBuf) -> PyResult<CorpusFile> {
        let builder = self.lock().take().ok_or_else(finished)?;
        let info = py.detach(|| builder.finish(&path)).map_err(trie_error)?;
        Ok(CorpusFile {
            name: info.name,
            fingerprint: self.fingerprint.clone(),
            num_tokens: info.num_tokens,
            num_documents: info.num_documents,
            bytes: info.bytes,
        })
    }
}

/// Facts of a corpus file, verified; see the stub file.
#[pyfunction]
fn corpus_info(py: Python<'_>, path: PathBuf) -> PyResult<CorpusFile> {
    let corpus = py.detach(|| Corpus::open(&path)).map_err(trie_error)?;
    Ok(CorpusFile {
        name: corpus.name().to_owned(),
        fingerprint: corpus.fingerprint().to_owned(),
        num_tokens: corpus.num_tokens(),
        num_documents: corpus.num_documents(),
        bytes: corpus.bytes(),
    })
}

/// Adds this file's classes and functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<CorpusFile>()?;
    module.add_class::<CorpusBuilder>()?;
    module.add_function(wrap_pyfunction!(corpus_info, module)?)
}
