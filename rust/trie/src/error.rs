//! What draft memory refuses.

use thiserror::Error;

/// A setting that draft memory cannot work with. Each message names what was given and what is
/// allowed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrieError {
    /// A draft mode that does not exist.
    #[error("draft mode {given:?} is unknown: allowed are \"auto\", \"bfs\" and \"prob\"")]
    UnknownMode {
        /// The name that was given.
        given: String,
    },
    /// A source number that does not exist.
    #[error("source {given} is unknown: allowed are 1 to 7")]
    UnknownSource {
        /// The number that was given.
        given: u8,
    },
    /// A setting outside its range.
    #[error("{name} is {given}: allowed are {least} to {most}")]
    OutOfRange {
        /// The setting.
        name: &'static str,
        /// Its value.
        given: usize,
        /// The smallest value allowed.
        least: usize,
        /// The largest value allowed.
        most: usize,
    },
    /// A lower bound above its upper bound.
    #[error("{low_name} is {low}, above {high_name}, which is {high}")]
    Inverted {
        /// The lower setting.
        low_name: &'static str,
        /// Its value.
        low: usize,
        /// The upper setting.
        high_name: &'static str,
        /// Its value.
        high: usize,
    },
}
