//! Errors of the crates as Python exceptions.

use std::error::Error;

use pyo3::exceptions::{PyException, PyValueError};
use pyo3::{PyErr, create_exception};
use spectrie_cpu::CpuError;
use spectrie_trie::TrieError;

create_exception!(
    spectrie._core,
    EngineError,
    PyException,
    "The engine refused a call."
);

create_exception!(
    spectrie._core,
    PackingError,
    EngineError,
    "The memory given for a packed step is too short."
);

pub(crate) fn engine_error(error: impl Error) -> PyErr {
    EngineError::new_err(error.to_string())
}

#[allow(clippy::needless_pass_by_value)] // the shape `map_err` wants
pub(crate) fn cpu_error(error: CpuError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

pub(crate) fn trie_error(error: TrieError) -> PyErr {
    PyValueError::new_err(error.to_string())
}
