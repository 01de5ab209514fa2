//! Which prompts were sent to which worker of a model.

use std::collections::BTreeMap;

use super::known::{Known, Match};
use super::prefix::{Prefix, namespace_name};

/// Most bytes of a model's table.
const MAX_BYTES: usize = 32 << 20;
/// Bytes of a block, where both of its maps are as empty as they become.
const BLOCK_BYTES: usize = 128;

/// What one worker is to the others, for one prompt.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Standing {
    pub(super) found: Match,
    /// Tokens of prompts that it had to compute lately: a token counts less the more came after
    /// it, 1/e once as many came to all workers as their caches hold.
    pub(super) work: f64,
}

/// A worker's blocks and work.
#[derive(Debug)]
struct Entry {
    known: Known,
    work: f64,
}

/// The table of one model, within [`MAX_BYTES`]. A worker's part is never larger than its cache,
/// so that what the worker has evicted is forgotten here at about the same time.
#[derive(Debug, Default)]
pub(super) struct Affinity {
    workers: BTreeMap<String, Entry>,
}

impl Affinity {
    /// Adds a worker whose cache holds so many tokens.
    pub(super) fn join(&mut self, worker: &str, cache_tokens: usize) {
        let entry = Entry {
            known: Known::new(cache_tokens),
            work: 0.0,
        };
        self.workers.insert(worker.to_owned(), entry);
        let max_blocks = self.max_blocks();
        for entry in self.workers.values_mut() {
            entry.known.shrink(max_blocks);
        }
    }

    /// Workers that are there.
    pub(super) fn num_workers(&self) -> usize {
        self.workers.len()
    }

    /// Forgets a worker that has gone.
    pub(super) fn forget(&mut self, worker: &str) {
        self.workers.remove(worker);
    }

    /// Forgets a namespace at all workers.
    pub(super) fn forget_namespace(&mut self, namespace: &str) {
        let namespace = namespace_name(namespace);
        for entry in self.workers.values_mut() {
            entry.known.forget_namespace(namespace);
        }
    }

    /// What a worker probably holds of a prompt, and what it had to do.
    pub(super) fn lookup(&self, worker: &str, prefix: &Prefix) -> Standing {
        let Some(entry) = self.workers.get(worker) else {
            return Standing::default();
        };
        Standing {
            found: entry.known.find(prefix),
            work: entry.work,
        }
    }

    /// Notes that a prompt was sent to a worker.
    pub(super) fn record(&mut self, worker: &str, prefix: &Prefix) {
        let (max_blocks, all) = (self.max_blocks(), self.cache_tokens().max(1) as f64);
        let Some(entry) = self.workers.get_mut(worker) else {
            return;
        };
        let computed = prefix.num_tokens - entry.known.find(prefix).tokens;
        entry.known.add(prefix, max_blocks);
        entry.work += computed as f64;
        let kept = (-(computed as f64) / all).exp();
        for entry in self.workers.values_mut() {
            entry.work *= kept;
        }
    }

    /// Most blocks of one worker.
    fn max_blocks(&self) -> usize {
        MAX_BYTES / BLOCK_BYTES / self.workers.len().max(1)
    }

    /// Tokens of all workers' caches.
    fn cache_tokens(&self) -> usize {
        let entries = self.workers.values();
        entries.fold(0, |all: usize, entry| {
            all.saturating_add(entry.known.cache_tokens())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(from: u32, count: u32) -> Prefix {
        Prefix::new("ann", &(from..from + count).collect::<Vec<_>>())
    }

    #[test]
    fn worker_that_went_is_forgotten_and_comes_back_with_nothing() {
        let mut affinity = Affinity::default();
        affinity.join("w1", 10_000);
        affinity.record("w1", &prefix(0, 640));
        assert_eq!(affinity.lookup("w1", &prefix(0, 640)).found.tokens, 640);
        affinity.forget("w1");
        affinity.record("w1", &prefix(0, 640));
        affinity.join("w1", 10_000);
        let standing = affinity.lookup("w1", &prefix(0, 640));
        assert!(standing.found.tokens == 0 && standing.work.to_bits() == 0);
    }

    #[test]
    fn work_counts_what_had_to_be_computed_and_fades() {
        let mut affinity = Affinity::default();
        affinity.join("w1", 10_000);
        affinity.join("w2", 10_000);
        affinity.record("w1", &prefix(0, 640));
        let first = affinity.lookup("w1", &prefix(0, 0)).work;
        affinity.record("w1", &prefix(0, 640));
        let second = affinity.lookup("w1", &prefix(0, 0)).work;
        assert!((first - second).abs() < 1e-9, "nothing to compute");
        for turn in 1..=40 {
            affinity.record("w2", &prefix(turn * 10_000, 1_000));
        }
        let later = affinity.lookup("w1", &prefix(0, 0)).work;
        assert!(
            (later / first - (-2.0_f64).exp()).abs() < 1e-3,
            "{later} of {first}"
        );
    }

    #[test]
    fn table_holds_its_bytes_however_many_workers_and_prompts_come() {
        let mut affinity = Affinity::default();
        for worker in 0..40_u32 {
            let name = worker.to_string();
            affinity.join(&name, usize::MAX);
            affinity.record(&name, &prefix(worker, 700_000));
        }
        let blocks: usize = affinity
            .workers
            .values()
            .map(|entry| entry.known.len())
            .sum();
        assert!((1..=MAX_BYTES / BLOCK_BYTES).contains(&blocks), "{blocks}");
    }

    #[test]
    fn forgotten_namespace_is_unknown_at_every_worker() {
        let mut affinity = Affinity::default();
        for worker in ["w1", "w2"] {
            affinity.join(worker, 10_000);
            affinity.record(worker, &prefix(0, 640));
        }
        affinity.forget_namespace("ann");
        for worker in ["w1", "w2"] {
            assert_eq!(affinity.lookup(worker, &prefix(0, 640)).found.tokens, 0);
        }
    }
}
