//! What draft memory refuses.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// What draft memory cannot work with. Each message names what was given, what is allowed and,
/// where it is not plain, what to do.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrieError {
    /// A draft mode that does not exist.
    #[error("draft mode {given:?} is unknown: allowed are \"auto\", \"bfs\" and \"prob\"")]
    UnknownMode {
        /// The name that was given.
        given: String,
    },
    /// A setting outside its range.
    #[error("{name} is {given}: allowed are {min} to {max}")]
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
    /// A name that no corpus can have.
    #[error(
        "corpus name {given:?} cannot be used: use 1 to 64 letters, digits, '.', '_' or '-', not \
         starting with '.' or '-'"
    )]
    CorpusName {
        /// The name that was given.
        given: String,
    },
    /// A tokenizer fingerprint that no file can hold.
    #[error("tokenizer fingerprint {given:?} has {} bytes: at most 64 fit", given.len())]
    Fingerprint {
        /// The fingerprint that was given.
        given: String,
    },
    /// More text than one corpus can index.
    #[error("a corpus of {given} tokens is too large: at most {max} fit, build several")]
    CorpusFull {
        /// Tokens and separators it would have.
        given: usize,
        /// The most that fit.
        max: usize,
    },
    /// A corpus under a name that is taken.
    #[error(
        "corpus {name:?} is loaded already: remove it first, or build the other under another name"
    )]
    DuplicateCorpus {
        /// The name.
        name: String,
    },
    /// A corpus that is not loaded.
    #[error("corpus {given:?} is not loaded: {}", loaded_names(.loaded))]
    UnknownCorpus {
        /// The name that was given.
        given: String,
        /// The names that are loaded.
        loaded: Vec<String>,
    },
    /// A file that cannot be opened, read or written.
    #[error("cannot {action} {}: {reason}", .path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        reason: String,
    },
    /// A file that can be read and must not be used.
    #[error("{} cannot be used as a {kind}: found {found}, expected {expected}; {remedy}", .path.display())]
    Refused {
        /// What the file was to be.
        kind: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        found: String,
        /// What it should be.
        expected: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A setting by name that does not exist.
    #[error("{what} {given:?} is unknown: allowed are {allowed}")]
    UnknownName {
        /// The setting.
        what: &'static str,
        /// The name that was given.
        given: String,
        /// The names there are.
        allowed: &'static str,
    },
    /// A number that is no probability.
    #[error("{name} is {given}: allowed are 0 to 1")]
    NotAProbability {
        /// What it is.
        name: &'static str,
        /// Its value.
        given: String,
    },
    /// A time that no forward can take.
    #[error("a forward of {rows} rows costs {given}: expected a finite time above 0")]
    NoCost {
        /// Rows of the forward.
        rows: usize,
        /// Its cost.
        given: String,
    },
    /// The one number that is no token id.
    #[error("{name}[{index}] is 4294967295, which ends documents: allowed are 0 to 4294967294")]
    NotAToken {
        /// The list it is in.
        name: &'static str,
        /// Its place there.
        index: usize,
    },
    /// Bytes that are no weights of the scores.
    #[error("{given} bytes are no weights: expected {expected} bytes of finite 32-bit floats")]
    Weights {
        /// Bytes given.
        given: usize,
        /// Bytes of weights.
        expected: usize,
    },
    /// Successors that are no whole rows.
    #[error("bigrams of {ids} ids and {probabilities} probabilities: expected 8 of each a token")]
    BigramRows {
        /// Ids given.
        ids: usize,
        /// Probabilities given.
        probabilities: usize,
    },
    /// Recorded likeliest tokens that do not fit the text.
    #[error(
        "topk has {given} entries: expected {expected}, one for each token of prompt and output"
    )]
    TopEntries {
        /// Positions that were given.
        given: usize,
        /// Tokens of prompt and output.
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
        "none is".to_owned()
    } else {
        format!("loaded are {}", names.join(", "))
    }
}
