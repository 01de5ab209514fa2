//! The heads of an index: one table of buckets for each order, grown and shrunk by linear hashing
//! (Litwin 1980).
//!
//! A table has `size` buckets. A hash belongs to the bucket of its low bits: as many of them as
//! number all buckets, or one fewer where there is no such bucket yet. So a table grows by one
//! bucket, into which a part of one other bucket moves, and shrinks in the same way:
//! `store/resize.rs`. Its cells lie in *levels*, each as large as all before it, which are
//! allocated whole.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

use crate::store::chains::ORDERS;
use crate::store::grant::Grant;
use crate::store::sync::{AtomicU32, zeroed};

/// Buckets of the first level. Loom explores every word, so it has few.
#[cfg(not(all(test, loom)))]
const FIRST_BUCKETS: u32 = 128;
#[cfg(all(test, loom))]
const FIRST_BUCKETS: u32 = 2;

/// Buckets per token of capacity, as right shifts, and the most of each order: few distinct single
/// tokens, many longer contexts.
const SHIFTS: [u32; ORDERS.len()] = [2, 1, 1, 1];
const MAX_BUCKETS: [u64; ORDERS.len()] = [1 << 17, 1 << 31, 1 << 31, 1 << 31];

/// Buckets that text of `capacity` tokens should have.
pub(crate) fn wanted(order: usize, capacity: u64) -> u32 {
    let wanted = (capacity >> SHIFTS[order]).clamp(u64::from(FIRST_BUCKETS), MAX_BUCKETS[order]);
    wanted as u32
}

/// Bytes of the tables of text of `capacity` tokens.
pub(crate) fn bytes_for(capacity: u64) -> usize {
    if capacity == 0 {
        return 0;
    }
    let buckets = (0..ORDERS.len()).map(|order| wanted(order, capacity).next_power_of_two());
    buckets.map(|buckets| buckets as usize).sum::<usize>() * size_of::<u32>()
}

/// Cells of a table that are allocated together.
#[derive(Debug)]
struct Level {
    cells: Box<[AtomicU32]>,
    grant: Grant,
}

/// The buckets of one order. Copies share their cells and their size.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// Buckets in use.
    size: Arc<AtomicU32>,
    levels: Vec<Arc<Level>>,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            size: Arc::new(AtomicU32::new(0)),
            levels: Vec::new(),
        }
    }
}

impl Table {
    /// Buckets that there are cells for.
    pub(crate) fn capacity(&self) -> u32 {
        match self.levels.len() {
            0 => 0,
            levels => FIRST_BUCKETS << (levels - 1),
        }
    }

    /// Buckets in use, as far as this copy has cells for them.
    pub(crate) fn size(&self) -> u32 {
        self.size.load(Acquire).min(self.capacity())
    }

    /// Uses `size` buckets from now on; there are cells for them.
    pub(super) fn resize(&self, size: u32) {
        debug_assert!(size <= self.capacity());
        self.size.store(size, Release);
    }

    /// The cell of a bucket in use.
    pub(super) fn cell(&self, bucket: u32) -> Option<&AtomicU32> {
        let level = match bucket / FIRST_BUCKETS {
            0 => 0,
            doubled => doubled.ilog2() + 1,
        };
        let first = match level {
            0 => 0,
            level => FIRST_BUCKETS << (level - 1),
        };
        let level = self.levels.get(level as usize)?;
        level.cells.get((bucket - first) as usize)
    }

    /// The cell of the bucket that `hash` belongs to, if the table has any.
    pub(super) fn cell_of(&self, hash: u32) -> Option<&AtomicU32> {
        let size = self.size();
        if size == 0 {
            return None;
        }
        self.cell(bucket(hash, size))
    }

    /// Buckets of the level that text of `capacity` tokens needs next, if it needs one.
    pub(crate) fn missing_level(&self, order: usize, capacity: u64) -> Option<usize> {
        let allocated = self.capacity();
        let missing = wanted(order, capacity) > allocated;
        missing.then_some(allocated.max(FIRST_BUCKETS) as usize)
    }

    /// Bytes of a level of `buckets`.
    pub(crate) fn level_bytes(buckets: usize) -> usize {
        buckets * size_of::<u32>()
    }

    /// Adds a level of `buckets`, for whose bytes there is a `grant`.
    pub(super) fn add_level(&mut self, buckets: usize, grant: Grant) {
        debug_assert_eq!(grant.bytes(), Self::level_bytes(buckets));
        let cells = zeroed(buckets);
        self.levels.push(Arc::new(Level { cells, grant }));
        if self.levels.len() == 1 {
            self.resize(FIRST_BUCKETS);
        }
    }

    /// Whether no bucket of the last level is in use and none will be soon, beside text of
    /// `capacity` tokens.
    pub(crate) fn has_spare_level(&self, order: usize, capacity: u64) -> bool {
        let half = self.capacity() / 2;
        self.levels.len() > 1 && self.size() <= half && wanted(order, capacity) <= half
    }

    /// Bytes of the levels that go back once there are as few buckets as text of `capacity` tokens
    /// may keep, which is twice what it should have.
    pub(crate) fn surplus_bytes(&self, order: usize, capacity: u64) -> usize {
        let kept = wanted(order, capacity)
            .saturating_mul(2)
            .next_power_of_two();
        Self::level_bytes(self.capacity().saturating_sub(kept) as usize)
    }

    /// Gives the last level back.
    pub(super) fn drop_level(&mut self) {
        if let Some(level) = self.levels.pop() {
            level.grant.release();
        }
    }

    /// Gives all levels back.
    pub(super) fn clear(&mut self) {
        for level in self.levels.drain(..) {
            level.grant.release();
        }
        // Who still reads the old cells finds what was there.
        self.size = Arc::new(AtomicU32::new(0));
    }

    /// Bytes of its cells.
    pub(crate) fn bytes(&self) -> usize {
        let cells = self.levels.iter().map(|level| level.cells.len());
        cells.sum::<usize>() * size_of::<u32>()
    }
}

/// The bits of a hash that choose a bucket, the most important first from below.
pub(super) fn bits_of(hash: u32) -> u32 {
    hash ^ (hash >> 16)
}

/// The bucket that `hash` belongs to in a table of `size`.
pub(super) fn bucket(hash: u32, size: u32) -> u32 {
    let bits = bits_of(hash);
    let half = 1 << size.ilog2();
    let bucket = bits & (half | (half - 1));
    if bucket < size {
        bucket
    } else {
        bits & (half - 1)
    }
}

/// The tables of all orders.
pub(crate) type Heads = [Table; ORDERS.len()];

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn table(capacity: u64) -> Table {
        let mut table = Table::default();
        while let Some(buckets) = table.missing_level(1, capacity) {
            table.add_level(buckets, Grant::unbounded(Table::level_bytes(buckets)));
        }
        table
    }

    #[test]
    fn every_bucket_has_a_cell_of_its_own() {
        let table = table(1 << 14);
        assert_eq!((table.capacity(), table.size()), (1 << 13, FIRST_BUCKETS));
        let cells: HashSet<_> = (0..table.capacity())
            .filter_map(|bucket| table.cell(bucket).map(std::ptr::from_ref))
            .collect();
        assert_eq!(cells.len(), 1 << 13);
        assert!(table.cell(1 << 13).is_none());
        assert_eq!(table.bytes(), 4 << 13);
    }

    #[test]
    fn a_hash_moves_only_to_the_bucket_that_is_new() {
        let table = table(1 << 14);
        let hashes: Vec<u32> = (0..2000_u32).map(|i| i.wrapping_mul(0x9E37_79B9)).collect();
        let place = |hash| table.cell_of(hash).map(std::ptr::from_ref);
        for size in FIRST_BUCKETS..1000 {
            let before: Vec<_> = hashes.iter().map(|&hash| place(hash)).collect();
            table.resize(size + 1);
            let new = table.cell(size).map(std::ptr::from_ref);
            for (&hash, before) in hashes.iter().zip(before) {
                let after = place(hash);
                assert!(after == before || after == new, "{hash} at {size}");
            }
        }
    }

    #[test]
    fn levels_come_and_go_with_the_text() {
        let mut table = table(1 << 14);
        table.resize(1 << 13);
        assert!(!table.has_spare_level(1, 1000), "its buckets are in use");
        table.resize(1 << 12);
        assert!(!table.has_spare_level(1, 1 << 14), "they will be soon");
        assert!(table.has_spare_level(1, 1000));
        table.drop_level();
        assert_eq!(table.capacity(), 1 << 12);
        table.clear();
        assert_eq!((table.bytes(), table.size()), (0, 0));
        assert_eq!(bytes_for(0), 0);
    }
}
