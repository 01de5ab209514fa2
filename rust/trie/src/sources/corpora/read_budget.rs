//! How often a draft may wait for the disk.

use std::cell::Cell;

/// Most blocks that one draft reads from files itself; what else it misses is read in the
/// background and found by later drafts.
pub(crate) const READS_PER_DRAFT: u32 = 8;

/// The reads left to a draft, over all corpora.
#[derive(Debug)]
pub(crate) struct ReadBudget(Cell<u32>);

impl Default for ReadBudget {
    fn default() -> Self {
        Self(Cell::new(READS_PER_DRAFT))
    }
}

impl ReadBudget {
    /// Takes one read, if one is left.
    pub(crate) fn take(&self) -> bool {
        let left = self.0.get();
        self.0.set(left.saturating_sub(1));
        left > 0
    }
}
