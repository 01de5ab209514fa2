//! Names of what routers keep in Redis.
//!
//! The number is that of the layout: routers of another layout share nothing with these, and each
//! leaves the other's keys alone.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest as _, Sha256};

/// The part of a key's name that all have.
const PREFIX: &str = "spectrie:1";

/// Most namespaces of a model whose generations are kept; those forgotten longest ago go first.
pub(super) const MAX_NAMESPACES: usize = 16_384;

/// Longest name of a namespace, in bytes; those of requests are far shorter.
const MAX_NAME_BYTES: usize = 4096;

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

/// A router's life, as keys and owners name it.
pub(super) fn life_of(origin: u128) -> String {
    format!("{origin:032x}")
}

/// What the key that says that a router lives has before its life.
pub(super) fn lives() -> String {
    format!("{PREFIX}:router:")
}

/// What the list of streams that others want of a router has before its life.
pub(super) fn wants() -> String {
    format!("{PREFIX}:wanted:")
}

/// The record of a stream, by its request's name between router and worker.
pub(super) fn stream(wire_name: &str) -> String {
    let mut name = format!("{:x}", Sha256::digest(wire_name));
    name.truncate(32);
    format!("{PREFIX}:stream:{name}")
}

/// What says that the text of a stream's choice was shared. The stream is known by the digest of its resume
/// token, which no other one has, whatever its name.
pub(super) fn taught(token_digest: &str, choice: usize) -> String {
    let mut name = format!("{:x}", Sha256::digest(format!("{token_digest}.{choice}")));
    name.truncate(32);
    format!("{PREFIX}:taught:{name}")
}

/// The latest generations of what is read of a hash, however much is there.
#[derive(Debug, Default)]
pub(super) struct Latest {
    pub(super) found: BTreeMap<String, u64>,
    /// The same, the lowest first.
    by_generation: BTreeSet<(u64, String)>,
    surplus: Vec<String>,
}

impl Latest {
    /// Takes a field, and what its value is as a generation.
    pub(super) fn add(&mut self, name: String, generation: Option<u64>) {
        // No worker takes other names, and none of this fleet wrote them.
        let is_name = (1..=MAX_NAME_BYTES).contains(&name.len());
        let Some(generation) = generation.filter(|_| is_name) else {
            self.surplus.push(name);
            return;
        };
        self.by_generation.insert((generation, name.clone()));
        // While a hash is read, a field may come twice.
        if let Some(before) = self.found.insert(name.clone(), generation)
            && before != generation
        {
            self.by_generation.remove(&(before, name));
        }
        if self.found.len() > MAX_NAMESPACES
            && let Some((_, oldest)) = self.by_generation.pop_first()
        {
            self.found.remove(&oldest);
            self.surplus.push(oldest);
        }
    }

    /// Fields that are of no use.
    pub(super) fn take_surplus(&mut self) -> Vec<String> {
        std::mem::take(&mut self.surplus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_more_names_than_there_is_room_for_the_latest_are_kept() {
        let mut latest = Latest::default();
        latest.add(String::new(), Some(9));
        latest.add("x".repeat(MAX_NAME_BYTES + 1), Some(9));
        latest.add("no generation".into(), None);
        assert_eq!(latest.take_surplus().len(), 3);
        let count = MAX_NAMESPACES as u64 + 10;
        for generation in 1..=count {
            latest.add(format!("n{generation}"), Some(generation));
            // A field may be read twice.
            latest.add(format!("n{generation}"), Some(generation));
        }
        let surplus: Vec<_> = (1..=10)
            .map(|generation| format!("n{generation}"))
            .collect();
        assert_eq!(latest.take_surplus(), surplus);
        assert_eq!(latest.found.len(), MAX_NAMESPACES);
        assert_eq!(latest.found["n11"], 11);
    }
}
