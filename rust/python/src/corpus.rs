//! Python face of corpora: building files and reading their facts.

use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use spectrie_trie::{BuildProgress, Corpus};

use crate::errors::trie_error;

/// Tokens between two reports of progress: some tenths of a second.
const REPORTED_TOKENS: u64 = 1 << 20;

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
    #[pyo3(signature = (name, fingerprint, scratch=None))]
    fn new(name: &str, fingerprint: &str, scratch: Option<PathBuf>) -> PyResult<Self> {
        let builder = spectrie_trie::CorpusBuilder::new(name, fingerprint).map_err(trie_error)?;
        let builder = match scratch {
            Some(folder) => builder.scratch_in(folder),
            None => builder,
        };
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

    #[pyo3(signature = (path, progress=None))]
    fn finish(
        &self,
        py: Python<'_>,
        path: PathBuf,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<CorpusFile> {
        let builder = self.lock().take().ok_or_else(finished)?;
        let (mut raised, mut shown) = (None, 0);
        let report = |now: BuildProgress| {
            if now.done < shown + REPORTED_TOKENS && now.done < now.total {
                return Ok(());
            }
            shown = now.done;
            let told = Python::attach(|py| {
                py.check_signals()?;
                let call = progress.as_ref();
                let called = call.map(|call| call.call1(py, (now.done, now.total)));
                called.transpose().map(drop)
            });
            told.map_err(|error| {
                raised = Some(error);
                io::Error::other("stopped by its caller")
            })
        };
        let built = py.detach(|| builder.finish_with(&path, report));
        if let Some(raised) = raised {
            return Err(raised);
        }
        let info = built.map_err(trie_error)?;
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
