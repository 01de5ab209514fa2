//! Which cells of a block were written since they were last saved.
//!
//! One bit says so for a group of cells. A writer stores its tokens first and then sets the bit,
//! with release and always: looking first whether it is set would race with a save that clears it.
//! The saver clears the bits, with acquire, before it reads a cell. Both change the same word in one
//! step, so one of them comes first. If the writer does, the saver sees the bit, and so the tokens
//! that were stored before it. If the saver does, the bit stays set and the next save reads the
//! tokens. So a write is saved by this save or the next, or by both, and never by neither.

use std::ops::Range;
use std::sync::atomic::AtomicU64 as Counter;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::store::sync::{AtomicU32, zeroed};

/// Cells that are saved together.
pub(crate) const GROUP_CELLS: u32 = 256;

/// The written groups of a block, and the number that the block is known by in saves.
#[derive(Debug)]
pub(crate) struct Dirty {
    /// No other block of this process ever has it.
    serial: u64,
    groups: Box<[AtomicU32]>,
}

impl Dirty {
    /// Nothing is written yet of a block of `capacity` cells.
    pub(super) fn new(capacity: usize) -> Self {
        static NEXT: Counter = Counter::new(0);
        Self {
            serial: NEXT.fetch_add(1, Relaxed),
            groups: zeroed(Self::bytes_for(capacity) / size_of::<u32>()),
        }
    }

    /// Bytes of the groups of a block of `capacity` cells.
    pub(super) fn bytes_for(capacity: usize) -> usize {
        let groups = capacity.div_ceil(GROUP_CELLS as usize);
        groups.div_ceil(u32::BITS as usize) * size_of::<u32>()
    }

    pub(super) fn bytes(&self) -> usize {
        self.groups.len() * size_of::<u32>()
    }

    /// The number of its block, which no other block of this process ever has.
    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    /// Notes that `cells` were written.
    pub(crate) fn mark(&self, cells: Range<u32>) {
        if cells.is_empty() {
            return;
        }
        for group in cells.start / GROUP_CELLS..=(cells.end - 1) / GROUP_CELLS {
            let word = self.groups.get((group / u32::BITS) as usize);
            if let Some(word) = word {
                word.fetch_or(1 << (group % u32::BITS), Release);
            }
        }
    }

    /// The written groups, which count as saved from now on.
    pub(crate) fn take(&self) -> Vec<u32> {
        let mut taken = Vec::new();
        for (index, word) in (0_u32..).zip(&self.groups) {
            let mut bits = word.swap(0, Acquire);
            while bits != 0 {
                taken.push(index * u32::BITS + bits.trailing_zeros());
                bits &= bits - 1;
            }
        }
        taken
    }

    /// Notes that `groups` were not saved after all.
    pub(crate) fn put_back(&self, groups: &[u32]) {
        for &group in groups {
            let first = group * GROUP_CELLS;
            self.mark(first..first + GROUP_CELLS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_taken_once_and_can_be_put_back() {
        let dirty = Dirty::new(1 << 14);
        dirty.mark(0..0);
        assert_eq!(dirty.take(), []);
        dirty.mark(255..257);
        dirty.mark(40 * GROUP_CELLS..40 * GROUP_CELLS + 1);
        let taken = dirty.take();
        assert_eq!(taken, [0, 1, 40]);
        assert_eq!(dirty.take(), []);
        dirty.put_back(&taken);
        assert_eq!(dirty.take(), taken);
        assert_ne!(dirty.serial(), Dirty::new(256).serial());
    }
}
