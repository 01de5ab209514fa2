//! The byte budget that all namespaces share.

use std::cmp::Reverse;
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::store::grant::Grant;
use crate::store::segment::Segment;
use crate::store::segment_shape::{MAX_SEGMENT_TOKENS, MIN_SEGMENT_TOKENS};

/// Tokens of a namespace's first segment, where its share allows, and how much larger each next
/// one is: a draft looks into every segment, so they should be few.
const FIRST_SEGMENT_TOKENS: usize = 4 << 10;
const SEGMENT_GROWTH: usize = 4;

/// A namespace's share is held in at least this many full-grown segments, so that evicting one
/// forgets a small part.
const SEGMENTS_PER_SHARE: usize = 8;

/// An owner of bytes of the budget that can be asked to give some back.
pub(crate) trait Tenant: fmt::Debug + Send + Sync {
    /// Bytes that it owns.
    fn bytes(&self) -> usize;
    /// Segments that it owns.
    fn num_segments(&self) -> usize;
    /// The [`Pool::tick`] of its last use.
    fn last_used(&self) -> u64;
    /// Drops its least useful segment; returns whether there was one.
    fn evict(&self) -> bool;
}

/// Grants bytes under one bound and chooses the segment that makes room.
#[derive(Debug)]
pub(crate) struct Pool {
    capacity_bytes: usize,
    used_bytes: Arc<AtomicUsize>,
    /// Only the holder raises the count of used bytes.
    granting: Mutex<()>,
    evicted_tokens: AtomicU64,
    clock: AtomicU64,
    next_segment: AtomicU64,
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
            next_segment: AtomicU64::new(0),
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

    /// An arena to follow one of `last_tokens` (0 = none before), or `None` when the budget
    /// cannot hold it.
    pub(crate) fn segment_after(
        &self,
        last_tokens: usize,
        requester: &dyn Tenant,
    ) -> Option<Arc<Segment>> {
        let share = self.capacity_bytes / self.live().len().max(1);
        let capacity = segment_tokens(last_tokens, share);
        let grant = self.grant(Segment::bytes_for(capacity), requester)?;
        Some(Arc::new(Segment::new(self.next_id(), capacity, grant)))
    }

    /// Leave to own `bytes`, for as long as the grant lives, or `None` when the budget cannot
    /// hold them. Over the bound, the least useful segments go: `requester`'s own when it has
    /// several and more than its fair share, else those of the largest namespace, the one idle
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
            // A namespace keeps the segment it has just filled, however small its share is.
            let greedy = requester.bytes() + bytes > share && requester.num_segments() > 1;
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

    /// The number of a new segment.
    pub(crate) fn next_id(&self) -> u64 {
        self.next_segment.fetch_add(1, Relaxed)
    }

    /// Counts tokens that made room for others.
    pub(crate) fn add_evicted(&self, tokens: u64) {
        self.evicted_tokens.fetch_add(tokens, Relaxed);
    }

    pub(crate) fn evicted_tokens(&self) -> u64 {
        self.evicted_tokens.load(Relaxed)
    }
}

/// Tokens of the segment after one of `last_tokens` for a namespace with `share_bytes`.
fn segment_tokens(last_tokens: usize, share_bytes: usize) -> usize {
    let bytes_per_token = Segment::bytes_for(MIN_SEGMENT_TOKENS) / MIN_SEGMENT_TOKENS;
    let max = (share_bytes / SEGMENTS_PER_SHARE / bytes_per_token)
        .clamp(MIN_SEGMENT_TOKENS, MAX_SEGMENT_TOKENS);
    // The largest power of two that is not above `max`.
    let max = 1 << max.ilog2();
    (last_tokens * SEGMENT_GROWTH)
        .max(FIRST_SEGMENT_TOKENS)
        .min(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_grow_up_to_an_eighth_of_the_share() {
        assert_eq!(segment_tokens(0, 256 << 20), 4 << 10);
        assert_eq!(segment_tokens(4 << 10, 256 << 20), 16 << 10);
        assert_eq!(segment_tokens(1 << 20, 256 << 20), 1 << 20);
        assert_eq!(segment_tokens(1 << 20, 4 << 30), 1 << 20);
        assert_eq!(segment_tokens(0, 64 << 10), 256);
        let max = segment_tokens(256 << 10, 64 << 20);
        assert!(Segment::bytes_for(max) * SEGMENTS_PER_SHARE <= 64 << 20);
    }
}
