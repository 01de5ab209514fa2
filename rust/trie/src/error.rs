//! The error of the crate.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Input that draft memory refuses. Each message names what was given, what is allowed and, where
/// it is not obvious, what to do.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrieError {
    /// A draft mode that does not exist.
    #[error("mode is {given:?}; allowed: auto, bfs, prob")]
    UnknownMode {
        /// The name that was given.
        given: String,
    },
    /// A setting outside its range.
    #[error("{name} is {given}; allowed: {min} to {max}")]
    OutOfRange {
        /// The setting.
        name: &'static str,
        /// Its value.
        given: usize,
        /// The smallest value allowed.
        min: usize,
        /// The largest value allowed.
        max: usize,
    },
    /// A lower bound above its upper bound.
    #[error("{low_name} is {low}; allowed: at most {high_name}, which is {high}")]
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
    /// An invalid corpus name.
    #[error(
        "corpus name is {given:?}; allowed: 1 to 64 letters, digits, '.', '_' or '-', not starting \
         with '.' or '-'"
    )]
    CorpusName {
        /// The name that was given.
        given: String,
    },
    /// A tokenizer fingerprint that is too long.
    #[error("tokenizer fingerprint {given:?} has {} bytes; allowed: at most 64", given.len())]
    Fingerprint {
        /// The fingerprint that was given.
        given: String,
    },
    /// More text than one corpus can index.
    #[error("corpus has {given} tokens; allowed: at most {max}; build several corpora instead")]
    CorpusFull {
        /// Tokens and separators it would have.
        given: usize,
        /// The maximum.
        max: usize,
    },
    /// A corpus whose name is taken.
    #[error(
        "corpus {name:?} is already loaded; remove it first or build the new one under another name"
    )]
    DuplicateCorpus {
        /// The name.
        name: String,
    },
    /// A corpus that is not loaded.
    #[error("corpus {given:?} is not loaded; {}", loaded_names(.loaded))]
    UnknownCorpus {
        /// The name that was given.
        given: String,
        /// The names that are loaded.
        loaded: Vec<String>,
    },
    /// A file that cannot be opened, read or written.
    #[error("cannot {action} {}: {reason}", .path.display())]
    Io {
        /// The attempted action.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The message of the operating system.
        reason: String,
    },
    /// A file that can be read but not used.
    #[error("{} cannot be used as a {kind}: found {found}, expected {expected}; {remedy}", .path.display())]
    Refused {
        /// The expected kind of file.
        kind: &'static str,
        /// The file.
        path: PathBuf,
        /// The problem.
        found: String,
        /// The expected contents.
        expected: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// A name that no setting has.
    #[error("{what} is {given:?}; allowed: {allowed}")]
    UnknownName {
        /// The setting.
        what: &'static str,
        /// The name that was given.
        given: String,
        /// The names there are.
        allowed: &'static str,
    },
    /// A number outside 0 to 1.
    #[error("{name} is {given}; allowed: 0 to 1")]
    NotAProbability {
        /// The setting.
        name: &'static str,
        /// Its value.
        given: String,
    },
    /// A cost that is not a positive, finite time.
    #[error("cost of {rows} rows is {given}; allowed: a finite time above 0")]
    NoCost {
        /// Rows of the forward.
        rows: usize,
        /// Its cost.
        given: String,
    },
    /// The separator where a token id is expected.
    #[error("{name}[{index}] is 4294967295, which separates documents; allowed: 0 to 4294967294")]
    NotAToken {
        /// The list it is in.
        name: &'static str,
        /// Its place there.
        index: usize,
    },
    /// Bytes that are not weights of the scores.
    #[error("weights have {given} bytes; allowed: {expected} bytes of finite 32-bit floats")]
    Weights {
        /// Bytes given.
        given: usize,
        /// Bytes of weights.
        expected: usize,
    },
    /// Bytes that are not what is believed of a head.
    #[error("a head's prior has {given} bytes; allowed: {expected} bytes of finite 32-bit floats")]
    HeadPrior {
        /// Bytes given.
        given: usize,
        /// Bytes of a prior.
        expected: usize,
    },
    /// Successors that do not form whole rows.
    #[error(
        "bigrams have {ids} ids and {probabilities} probabilities; allowed: 8 of each per token"
    )]
    BigramRows {
        /// Ids given.
        ids: usize,
        /// Probabilities given.
        probabilities: usize,
    },
    /// Recorded likeliest tokens that do not fit the text.
    #[error(
        "topk has {given} entries; allowed: {expected}, one for each token of prompt and output"
    )]
    TopEntries {
        /// Positions that were given.
        given: usize,
        /// Tokens of prompt and output.
        expected: usize,
    },
    /// Recorded answers of a head that do not fit the output.
    #[error("head has answers at {given} places; allowed: {expected}, one for each output token")]
    HeadAnswers {
        /// Places that were given.
        given: usize,
        /// Tokens of the output.
        expected: usize,
    },
}

impl TrieError {
    pub(crate) fn io(action: &'static str, path: &Path, error: &io::Error) -> Self {
        Self::Io {
            action,
            path: path.to_owned(),
            reason: error.to_string(),
        }
    }
}

fn loaded_names(names: &[String]) -> String {
    if names.is_empty() {
        "none is loaded".to_owned()
    } else {
        format!("loaded: {}", names.join(", "))
    }
}
