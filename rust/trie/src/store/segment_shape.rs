//! The sizes of a segment, and the check of a saved one.

use crate::store::chains::ORDERS;

/// Tokens of the smallest and of the largest segment.
pub(crate) const MIN_SEGMENT_TOKENS: usize = 256;
pub(crate) const MAX_SEGMENT_TOKENS: usize = 1 << 20;

/// Heads per token of capacity, as right shifts: few distinct single tokens, many longer contexts.
pub(crate) const HEAD_SHIFTS: [u32; ORDERS.len()] = [2, 1, 1, 1];

/// What is to be known of a saved segment to load it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentShape {
    pub(crate) capacity: u32,
    pub(crate) end: u32,
    pub(crate) num_tokens: u32,
    pub(crate) credit: u32,
}

impl SegmentShape {
    /// Whether there can be such a segment.
    pub(crate) fn is_possible(self) -> bool {
        let sizes = MIN_SEGMENT_TOKENS..=MAX_SEGMENT_TOKENS;
        self.capacity.is_power_of_two()
            && sizes.contains(&(self.capacity as usize))
            && self.end <= self.capacity
            && self.num_tokens <= self.end
    }

    /// Bytes of the saved segment, without its checksum.
    pub(crate) fn saved_bytes(self) -> usize {
        let capacity = self.capacity as usize;
        let heads: usize = HEAD_SHIFTS.iter().map(|shift| capacity >> shift).sum();
        (self.end as usize * (1 + ORDERS.len()) + heads) * size_of::<u32>()
    }
}
