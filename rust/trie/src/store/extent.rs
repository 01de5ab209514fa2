//! Cells of a block that one document is written to.

/// Cells of a block that one document is written to. The cell after the last is a separator
/// for as long as the extent does not grow.
#[derive(Debug)]
pub(crate) struct Extent {
    pub(super) start: u32,
    /// The next cell to write.
    pub(super) next: u32,
    /// One past the last cell to write.
    pub(super) end: u32,
}

impl Extent {
    /// The cells from `start` up to `end`, none of them written.
    pub(super) fn new(start: u32, end: u32) -> Self {
        Self {
            start,
            next: start,
            end,
        }
    }

    /// The next cell to write.
    pub(super) fn next(&self) -> u32 {
        self.next
    }

    /// Tokens that still fit.
    pub(crate) fn room(&self) -> usize {
        (self.end - self.next) as usize
    }
}

/// A range of shared memory that one running request wrote: see [`crate::Drafter::exclude`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InsertedRange {
    block_id: u64,
    first: u32,
    /// One past the last cell set aside for it.
    end: u32,
}

impl InsertedRange {
    /// The cells of `extent` in the block numbered `block_id`.
    pub(crate) fn new(block_id: u64, extent: &Extent) -> Self {
        Self {
            block_id,
            first: extent.start,
            end: extent.end,
        }
    }

    /// Takes the end of `extent`, which has grown.
    pub(crate) fn follow(&mut self, extent: &Extent) {
        self.end = extent.end;
    }

    /// Whether it holds a cell of a block.
    pub(crate) fn holds(&self, block_id: u64, cell: u32) -> bool {
        self.block_id == block_id && (self.first..self.end).contains(&cell)
    }
}
