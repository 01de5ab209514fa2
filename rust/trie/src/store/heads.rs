//! The heads of an index: one table of buckets for each order.
//!
//! Tables grow and shrink by a few buckets at a time: `store/buckets.rs` says which bucket a hash
//! belongs to, `store/resize.rs` moves the entries. Cells lie in *levels*, which are allocated
//! whole: the first, and then four for each doubling.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

use crate::store::buckets::{FIRST_BUCKETS, bucket};
use crate::store::chains::ORDERS;
use crate::store::grant::Grant;
use crate::store::sync::{AtomicU32, zeroed};

/// Levels that double the cells.
const LEVELS_PER_DOUBLING: u32 = 4;

/// Buckets per token of capacity, as right shifts, and the most of each order: few distinct single
/// tokens, many longer contexts.
const SHIFTS: [u32; ORDERS.len()] = [2, 1, 1, 1];
const MAX_BUCKETS: [u64; ORDERS.len()] = [1 << 17, 1 << 30, 1 << 30, 1 << 30];

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
    let buckets = (0..ORDERS.len()).map(|order| allocated(wanted(order, capacity)));
    buckets.map(|buckets| buckets as usize).sum::<usize>() * size_of::<u32>()
}

/// Cells of the levels that have room for `buckets`.
fn allocated(buckets: u32) -> u32 {
    if buckets <= FIRST_BUCKETS {
        return FIRST_BUCKETS;
    }
    let doubled = FIRST_BUCKETS << ((buckets - 1) / FIRST_BUCKETS).ilog2();
    buckets.next_multiple_of(doubled / LEVELS_PER_DOUBLING)
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
        let Some(more) = (self.levels.len() as u32).checked_sub(1) else {
            return 0;
        };
        let doubled = FIRST_BUCKETS << (more / LEVELS_PER_DOUBLING);
        doubled + more % LEVELS_PER_DOUBLING * (doubled / LEVELS_PER_DOUBLING)
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
        let (level, index) = match (bucket / FIRST_BUCKETS).checked_ilog2() {
            None => (0, bucket),
            Some(doublings) => {
                let doubled = FIRST_BUCKETS << doublings;
                let bits = doubled.trailing_zeros() - LEVELS_PER_DOUBLING.trailing_zeros();
                let index = bucket - doubled;
                let level = 1 + doublings * LEVELS_PER_DOUBLING + (index >> bits);
                (level, index & ((1 << bits) - 1))
            }
        };
        let level = self.levels.get(level as usize)?;
        level.cells.get(index as usize)
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
        let has = self.capacity();
        let missing = wanted(order, capacity) > has;
        missing.then(|| (allocated(has + 1) - has) as usize)
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
        let last = self.levels.last().map_or(0, |level| level.cells.len());
        let others = self.capacity() - last as u32;
        self.levels.len() > 1 && self.size() <= others && wanted(order, capacity) <= others
    }

    /// Bytes of the levels that go back once there are as few buckets as text of `capacity` tokens
    /// may keep, which is twice what it should have.
    pub(crate) fn surplus_bytes(&self, order: usize, capacity: u64) -> usize {
        let kept = allocated(wanted(order, capacity) * 2);
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
    fn levels_are_a_quarter_of_what_there_is() {
        assert_eq!(
            [1, 128, 129, 160, 161, 256, 257, 1000].map(allocated),
            [128, 128, 160, 160, 192, 256, 320, 1024]
        );
        for tokens in [1000, 5000, 100_000, 4_600_000] {
            let table = table(tokens);
            assert_eq!(table.capacity(), allocated(wanted(1, tokens)));
            assert!(u64::from(table.capacity()) * 4 <= tokens / 2 * 5 + 512);
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
        while table.has_spare_level(1, 1000) {
            table.drop_level();
        }
        assert_eq!(table.capacity(), 1 << 12);
        table.clear();
        assert_eq!((table.bytes(), table.size()), (0, 0));
        assert_eq!(bytes_for(0), 0);
    }
}
