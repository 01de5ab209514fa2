//! The sizes of a block, and the check of a saved one.

/// Tokens of the smallest and of the largest block.
pub(crate) const MIN_BLOCK_TOKENS: usize = 256;
pub(crate) const MAX_BLOCK_TOKENS: usize = 1 << 20;

/// What is to be known of a saved block to load it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockShape {
    pub(crate) capacity: u32,
    /// Cells that belong to an extent, their separators included.
    pub(crate) end: u32,
    /// Tokens that can be found.
    pub(crate) num_tokens: u32,
    /// Accepted draft tokens that came from it.
    pub(crate) credit: u32,
}

impl BlockShape {
    /// Whether there can be such a block.
    pub(crate) fn is_possible(self) -> bool {
        let sizes = MIN_BLOCK_TOKENS..=MAX_BLOCK_TOKENS;
        self.capacity.is_power_of_two()
            && sizes.contains(&(self.capacity as usize))
            && self.end <= self.capacity
            && self.num_tokens <= self.end
    }

    /// Bytes of the saved block, without its checksum: its cells and which of them are context.
    pub(crate) fn saved_bytes(self) -> usize {
        let end = self.end as usize;
        (end + end.div_ceil(u32::BITS as usize)) * size_of::<u32>()
    }
}
