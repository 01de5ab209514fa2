//! What the members of a run meet at and take their parts from.

use std::sync::atomic::Ordering;

use crate::threads::park::Park;
use crate::threads::sync::{AtomicBool, AtomicU64, AtomicUsize};

/// A value on cache lines of its own: 128 bytes, since processors fetch lines in pairs.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct CachePadded<T>(pub(super) T);

/// What the members of one run share: arrivals at the barrier, and parts handed out.
#[derive(Default)]
pub(crate) struct Barrier {
    /// Arrivals at barriers since the run began.
    pub(super) arrived: CachePadded<AtomicUsize>,
    /// The newest share that somebody began, in the upper half, and the parts of it handed out.
    pub(super) parts: CachePadded<AtomicU64>,
    /// Set when a member panicked: no member may wait for it.
    broken: AtomicBool,
    /// Where members sleep whose partners have no core.
    pub(super) park: Park,
}

impl Barrier {
    /// Prepares for a run; none may be under way.
    pub(crate) fn reset(&self) {
        self.arrived.0.store(0, Ordering::Relaxed);
        self.parts.0.store(0, Ordering::Relaxed);
        self.broken.store(false, Ordering::Relaxed);
    }

    /// Informs all members that one of them will not reach the next barrier.
    pub(crate) fn give_up(&self) {
        self.broken.store(true, Ordering::Release);
        self.park.wake();
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }
}
