//! The one error of this crate.

use thiserror::Error;

/// Why a grammar could not be had.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SamplingError {
    /// A value is out of range.
    #[error("{name} is {given}; allowed: {allowed}")]
    Config {
        /// Name of the value.
        name: &'static str,
        /// What was given.
        given: String,
        /// What is allowed.
        allowed: String,
    },
    /// Its caller stopped waiting for it.
    #[error("the caller stopped waiting for the grammar")]
    GivenUp,
    /// A constraint that cannot be compiled.
    #[error("{name} cannot be used: {reason}")]
    Grammar {
        /// Its kind, as callers know it.
        name: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}
