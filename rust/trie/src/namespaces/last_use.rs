//! When a namespace was last used.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// The last use of a namespace, on two clocks of its pool.
#[derive(Debug, Default)]
pub(crate) struct LastUse {
    /// Uses of any namespace before.
    tick: AtomicU64,
    /// Bytes given out before, to any namespace, and since then to this one.
    given_bytes: AtomicU64,
}

impl LastUse {
    pub(super) fn set(&self, tick: u64, given_bytes: u64) {
        self.tick.store(tick, Relaxed);
        self.given_bytes.store(given_bytes, Relaxed);
    }

    /// Takes bytes that it was given itself out of the time that it is idle.
    pub(super) fn add_given(&self, bytes: u64) {
        self.given_bytes.fetch_add(bytes, Relaxed);
    }

    pub(super) fn tick(&self) -> u64 {
        self.tick.load(Relaxed)
    }

    pub(super) fn given_bytes(&self) -> u64 {
        self.given_bytes.load(Relaxed)
    }
}
