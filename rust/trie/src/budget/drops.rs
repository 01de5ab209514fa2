//! Counts of tokens that were dropped, by reason.

use std::array;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use spectrie_types::{DropReason, NUM_DROP_REASONS};

/// Tokens dropped since the start, by reason.
#[derive(Debug, Default)]
pub(super) struct Drops([AtomicU64; NUM_DROP_REASONS]);

impl Drops {
    pub(super) fn add(&self, reason: DropReason, tokens: u64) {
        self.0[reason.index()].fetch_add(tokens, Relaxed);
    }

    /// In the order of [`DropReason::ALL`].
    pub(super) fn all(&self) -> [u64; NUM_DROP_REASONS] {
        array::from_fn(|index| self.0[index].load(Relaxed))
    }

    /// Of the tokens that made room for others.
    pub(super) fn evicted(&self) -> u64 {
        let all = DropReason::ALL.into_iter().zip(self.all());
        all.filter(|(reason, _)| reason.is_eviction())
            .map(|(_, tokens)| tokens)
            .sum()
    }
}
