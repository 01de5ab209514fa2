//! The byte budget that all namespaces share.

use std::cmp::Reverse;
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::store::block::Block;
use crate::store::block_shape::{MAX_BLOCK_TOKENS, MIN_BLOCK_TOKENS};
use crate::store::grant::Grant;
use crate::store::heads;

/// Tokens of a namespace's first block, where its share allows.
const FIRST_BLOCK_TOKENS: usize = 1 << 10;

/// A namespace's text, and its share, are held in at least this many blocks, so that evicting one
/// forgets a small part; and in at most so many, however small its share is.
const BLOCKS_PER_TEXT: u64 = 16;
const BLOCKS_PER_SHARE: usize = 8;
const MOST_PER_TEXT: u64 = 1024;

/// An owner of bytes of the budget that can be asked to give some back.
pub(crate) trait Tenant: fmt::Debug + Send + Sync {
    /// Bytes that it owns.
    fn bytes(&self) -> usize;
    /// Blocks that it owns.
    fn num_blocks(&self) -> usize;
    /// The [`Pool::tick`] of its last use.
    fn last_used(&self) -> u64;
    /// Drops its oldest text; returns whether there was any.
    fn evict(&self) -> bool;
}

/// Grants bytes under one bound and chooses whose text makes room.
#[derive(Debug)]
pub(crate) struct Pool {
    capacity_bytes: usize,
    used_bytes: Arc<AtomicUsize>,
    /// Only the holder raises the count of used bytes.
    granting: Mutex<()>,
    evicted_tokens: AtomicU64,
    clock: AtomicU64,
    tenants: Mutex<Vec<Weak<dyn Tenant>>>,
}

impl Pool {
    pub(crate) fn new(capacity_bytes: usize) -> Self {
        Self {
            capacity_bytes,
            used_bytes: Arc::default(),
            granting: Mutex::new(()),
            evicted_tokens: AtomicU64::new(0),
            clock: AtomicU64::new(1),
            tenants: Mutex::new(Vec::new()),
        }
    }

    /// Bytes of everything that is owned.
    pub(crate) fn used_bytes(&self) -> usize {
        self.used_bytes.load(Relaxed)
    }

    /// A number that grows with each use of any namespace.
    pub(crate) fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Relaxed)
    }

    pub(crate) fn register(&self, tenant: Weak<dyn Tenant>) {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        tenants.push(tenant);
    }

    /// Every tenant alive, also those that were forgotten while a request still holds them.
    fn live(&self) -> Vec<Arc<dyn Tenant>> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        tenants.retain(|entry| entry.strong_count() > 0);
        tenants.iter().filter_map(Weak::upgrade).collect()
    }

    /// Block number `id`, for a namespace whose blocks hold `tokens`, or `None` when the budget
    /// cannot hold it.
    pub(crate) fn block_after(
        &self,
        tokens: u64,
        id: u64,
        requester: &dyn Tenant,
    ) -> Option<Block> {
        let share = self.capacity_bytes / self.live().len().max(1);
        let capacity = block_tokens(tokens, share);
        let grant = self.grant(Block::bytes_for(capacity), requester)?;
        Some(Block::new(id, capacity, grant))
    }

    /// Leave to own `bytes`, for as long as the grant lives, or `None` when the budget cannot
    /// hold them. Over the bound, the oldest text goes: `requester`'s own when it has several
    /// blocks and more than its fair share, else that of the largest namespace, the one idle
    /// longest among equals.
    pub(crate) fn grant(&self, bytes: usize, requester: &dyn Tenant) -> Option<Grant> {
        if bytes > self.capacity_bytes {
            return None;
        }
        let live = self.live();
        let share = self.capacity_bytes / live.len().max(1);
        // Only the holder of this lock raises the count.
        let _turn = self.granting.lock().unwrap_or_else(PoisonError::into_inner);
        let max_bytes = self.capacity_bytes - bytes;
        while self.used_bytes() > max_bytes {
            // A namespace keeps the block it has just filled, however small its share is.
            let greedy = requester.bytes() + bytes > share && requester.num_blocks() > 1;
            let evicted = if greedy {
                requester.evict()
            } else {
                let size =
                    |tenant: &&Arc<dyn Tenant>| (tenant.bytes(), Reverse(tenant.last_used()));
                let largest = live.iter().max_by_key(size);
                largest.is_some_and(|tenant| tenant.evict())
            };
            if !evicted {
                return None;
            }
        }
        Some(self.grant_now(bytes))
    }

    /// Leave to own `bytes` if they fit beside what is owned already.
    pub(crate) fn grant_spare(&self, bytes: usize) -> Option<Grant> {
        let _turn = self.granting.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = self.used_bytes() + bytes <= self.capacity_bytes;
        fits.then(|| self.grant_now(bytes))
    }

    /// The caller has checked the bound and holds [`Pool::granting`].
    fn grant_now(&self, bytes: usize) -> Grant {
        Grant::new(bytes, &self.used_bytes)
    }

    /// Bytes that nobody owns.
    pub(crate) fn spare_bytes(&self) -> usize {
        self.capacity_bytes.saturating_sub(self.used_bytes())
    }

    /// Counts tokens that made room for others.
    pub(crate) fn add_evicted(&self, tokens: u64) {
        self.evicted_tokens.fetch_add(tokens, Relaxed);
    }

    pub(crate) fn evicted_tokens(&self) -> u64 {
        self.evicted_tokens.load(Relaxed)
    }
}

/// Tokens of the next block of a namespace with `share_bytes` whose blocks hold `tokens`.
fn block_tokens(tokens: u64, share_bytes: usize) -> usize {
    let (block, heads) = (
        Block::bytes_for(MAX_BLOCK_TOKENS),
        heads::bytes_for(MAX_BLOCK_TOKENS as u64),
    );
    let bytes_per_token = (block + heads).div_ceil(MAX_BLOCK_TOKENS);
    let most = (share_bytes / BLOCKS_PER_SHARE / bytes_per_token)
        .clamp(MIN_BLOCK_TOKENS, MAX_BLOCK_TOKENS);
    let wanted = (tokens / BLOCKS_PER_TEXT) as usize;
    // The largest power of two that is not above either.
    let tokens_of = |wanted: usize| 1 << wanted.ilog2();
    let least = (tokens.div_ceil(MOST_PER_TEXT) as usize).next_power_of_two();
    tokens_of(wanted.max(FIRST_BLOCK_TOKENS).min(most)).max(least.min(MAX_BLOCK_TOKENS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_grow_with_the_text_up_to_an_eighth_of_the_share() {
        assert_eq!(block_tokens(0, 256 << 20), 1 << 10);
        assert_eq!(block_tokens(100_000, 256 << 20), 4 << 10);
        assert_eq!(block_tokens(100_000_000, 4 << 30), 1 << 20);
        assert_eq!(block_tokens(100_000, 64 << 10), 256);
        assert_eq!(block_tokens(4_000_000, 256 << 10), 4 << 10, "not too many");
        let most = block_tokens(100_000_000, 64 << 20);
        let bytes = Block::bytes_for(most) + heads::bytes_for(most as u64);
        assert!(bytes * BLOCKS_PER_SHARE <= 64 << 20);
    }

    #[test]
    fn the_number_of_blocks_grows_with_the_logarithm_of_the_text() {
        let blocks = |most: u64| {
            let (mut tokens, mut blocks) = (0, 0);
            while tokens < most {
                tokens += block_tokens(tokens, 8 << 30) as u64;
                blocks += 1;
            }
            blocks
        };
        assert_eq!(
            (blocks(1 << 15), blocks(1 << 20), blocks(1 << 24)),
            (32, 112, 176)
        );
        assert_eq!(blocks(100 << 20), 176 + 84, "of the largest size");
    }
}
