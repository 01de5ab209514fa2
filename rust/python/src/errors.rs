//! Errors of the crates as Python exceptions.

use pyo3::PyErr;
use pyo3::exceptions::PyValueError;
use spectrie_cpu::CpuError;
use spectrie_trie::TrieError;

#[allow(clippy::needless_pass_by_value)] // the shape `map_err` wants
pub(crate) fn cpu_error(error: CpuError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

pub(crate) fn trie_error(error: TrieError) -> PyErr {
    PyValueError::new_err(error.to_string())
}
