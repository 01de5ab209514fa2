//! The result of a step.

use std::error::Error;

/// What a step gives, or why it failed.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;
