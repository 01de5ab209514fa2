//! Errors of the crates as Python exceptions.

use pyo3::PyErr;
use pyo3::exceptions::PyValueError;
use spectrie_trie::TrieError;

pub(crate) fn trie_error(error: TrieError) -> PyErr {
    PyValueError::new_err(error.to_string())
}
