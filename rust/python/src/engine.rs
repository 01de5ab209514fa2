//! Python face of `spectrie-engine`.

use pyo3::prelude::*;

/// Adds this file's classes and functions to the module.
pub(crate) fn register(_module: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
