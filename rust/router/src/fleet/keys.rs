//! Names of what routers keep in Redis.
//!
//! The number is that of the layout: routers of another layout share nothing with these, and each
//! leaves the other's keys alone.

use sha2::{Digest as _, Sha256};

/// The part of a key's name that all have.
const PREFIX: &str = "spectrie:1";

/// Names a model and its tokenizer: text of one is of no use to another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ModelKey(Box<str>);

impl ModelKey {
    /// The key of a model with weights of `model_hash`, whose other files have this digest.
    pub(crate) fn new(model_hash: &str, digest: &str) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(model_hash);
        hasher.update([0]);
        hasher.update(digest);
        let mut name = format!("{:x}", hasher.finalize());
        name.truncate(32);
        Self(name.into())
    }

    /// As it is written in files and in Redis.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// The stream of learned text.
    pub(super) fn texts(&self) -> String {
        format!("{PREFIX}:text:{}", self.0)
    }

    /// The hash of generations of forgotten namespaces.
    pub(super) fn forgotten(&self) -> String {
        format!("{PREFIX}:forgotten:{}", self.0)
    }
}

impl From<&str> for ModelKey {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}
