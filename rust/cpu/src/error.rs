//! The error of this crate.

use thiserror::Error;

/// An operator refused its arguments, memory ran out, or an operator panicked. Nothing was written,
/// except after [`CpuError::Panicked`].
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum CpuError {
    /// A size given at construction is not supported.
    #[error("{what} is {given}; allowed: {allowed}")]
    Size {
        /// Name of the size.
        what: &'static str,
        /// The value given.
        given: usize,
        /// Allowed values, in words.
        allowed: &'static str,
    },
    /// A buffer's length does not fit the other arguments.
    #[error("{what} has {given} elements, expected {expected}")]
    Length {
        /// Name of the buffer.
        what: &'static str,
        /// Its length.
        given: usize,
        /// The length that fits the other arguments.
        expected: usize,
    },
    /// An entry of the plan is out of range or contradicts the others.
    #[error("{what}[{index}] is {given}, expected {expected}")]
    Entry {
        /// Name of the array.
        what: &'static str,
        /// Index of the entry.
        index: usize,
        /// The value given.
        given: i64,
        /// Allowed values, in words.
        expected: String,
    },
    /// A key-value cache or a packed weight could not be allocated.
    #[error(
        "cannot allocate {bytes} bytes for weights or key-value cache; use a smaller model or cache"
    )]
    Memory {
        /// Requested bytes.
        bytes: usize,
    },
    /// An operator panicked on a thread of the team. This is a bug; the content of the cache is unknown.
    #[error("a CPU operator panicked: this is a bug, and the content of the cache is unknown")]
    Panicked,
}
