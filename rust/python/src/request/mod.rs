//! Requests: their options, what they become for an engine, and the answers that come back.

mod choice;
mod defaults;
mod error;
mod fields;
mod options;
mod piece;
mod resolver;

use pyo3::prelude::*;

/// Adds this folder's classes and functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<defaults::GenerationConfig>()?;
    module.add_class::<resolver::RequestResolver>()?;
    module.add_class::<choice::Choice>()?;
    module.add_class::<piece::AnswerPiece>()?;
    module.add_class::<piece::AnswerEnd>()
}
