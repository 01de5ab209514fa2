//! One thread's view of a run: its number, the barrier, and the sharing out of parts.

use std::cell::Cell;
use std::panic::resume_unwind;
use std::sync::atomic::Ordering;

use crate::threads::barrier::Barrier;

/// What a member that waits for a panicked one unwinds with.
struct GivenUp;

/// One thread of a [`Team`](crate::Team) during a run.
pub struct Member<'a> {
    index: usize,
    threads: usize,
    barrier: &'a Barrier,
    barriers: Cell<usize>,
    shares: Cell<u32>,
}

impl<'a> Member<'a> {
    pub(crate) fn new(index: usize, threads: usize, barrier: &'a Barrier) -> Self {
        Self {
            index,
            threads,
            barrier,
            barriers: Cell::new(0),
            shares: Cell::new(0),
        }
    }
}

impl Member<'_> {
    /// Index below [`Member::threads`]; the caller of the run is 0.
    #[inline]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Number of members of the run.
    #[inline]
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Waits until all members have arrived. Writes before the barrier are visible to all after it.
    ///
    /// # Panics
    /// When another member panicked, so that the run ends with an error instead of hanging.
    #[inline]
    pub fn barrier(&self) {
        if self.threads == 1 {
            return;
        }
        let expected = self.barriers.get() + self.threads;
        self.barriers.set(expected);
        let arrived = &self.barrier.arrived.0;
        if arrived.fetch_add(1, Ordering::AcqRel) + 1 >= expected {
            self.barrier.park.wake();
            return;
        }
        let park = &self.barrier.park;
        park.until(|| arrived.load(Ordering::Acquire) >= expected || self.barrier.is_broken());
        if arrived.load(Ordering::Acquire) < expected {
            resume_unwind(Box::new(GivenUp));
        }
    }

    /// Calls `work` once for each of `0..parts`, on the members that are free; there is no barrier at the
    /// end. Every member must call the same sequence of shares and barriers.
    #[inline]
    pub fn share(&self, parts: usize, mut work: impl FnMut(usize)) {
        if self.threads == 1 {
            (0..parts).for_each(work);
            return;
        }
        let share = self.shares.get() + 1;
        self.shares.set(share);
        while let Some(part) = self.take(share, parts) {
            work(part);
        }
    }

    /// The next part of the run's `share`th share.
    ///
    /// One word serves all shares: a member goes on to the next share only when no part of this one is
    /// left, so a member that finds a newer share in it is late and has nothing to do.
    #[inline]
    fn take(&self, share: u32, parts: usize) -> Option<usize> {
        let word = &self.barrier.parts.0;
        let mut seen = word.load(Ordering::Relaxed);
        loop {
            let newest = (seen >> 32) as u32;
            let part = if newest == share { seen as u32 } else { 0 };
            if newest > share || part as usize >= parts {
                return None;
            }
            let next = u64::from(share) << 32 | u64::from(part + 1);
            match word.compare_exchange_weak(seen, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(part as usize),
                Err(now) => seen = now,
            }
        }
    }
}
