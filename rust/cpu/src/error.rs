//! The crate's one error.

use thiserror::Error;

/// Why an operator refused its arguments. Nothing was written when one of these is returned, except
/// [`CpuError::Panicked`].
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum CpuError {
    /// A size given at construction is outside what the operators support.
    #[error("{what} is {given}, allowed: {allowed}")]
    Size {
        /// Which size.
        what: &'static str,
        /// The value given.
        given: usize,
        /// The values allowed, in words.
        allowed: &'static str,
    },
    /// A buffer's length does not fit the other arguments.
    #[error("{what} has {given} elements, expected {expected}")]
    Length {
        /// Which buffer.
        what: &'static str,
        /// Its length.
        given: usize,
        /// The length that the other arguments call for.
        expected: usize,
    },
    /// An entry of the plan points outside its range.
    #[error("{what}[{index}] is {given}, expected {expected}")]
    Entry {
        /// Which array of the plan.
        what: &'static str,
        /// Which entry of it.
        index: usize,
        /// The value given.
        given: i64,
        /// What would have been right, in words.
        expected: String,
    },
    /// A key-value cache or a packed weight could not be allocated.
    #[error(
        "no memory for {bytes} bytes of weights or key-value cache; use a smaller model or cache"
    )]
    Memory {
        /// Bytes asked for.
        bytes: usize,
    },
    /// An operator panicked on a worker thread: a bug; the cache content is unknown.
    #[error("a CPU operator panicked")]
    Panicked,
}
