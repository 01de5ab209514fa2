//! What the index of a namespace needs beside new text: blocks, levels of its tables, buckets.

use crate::store::chains::ORDERS;
use crate::store::resize::Moving;
use crate::store::view::{MAX_BLOCKS, View};

/// Tokens that pay for splitting a bucket, or for making one of four again, of each order. Growing
/// text needs one for every six.
const TOKENS_PER_BUCKET: usize = 3;

/// Buckets that are split together at least, since they are fetched side by side.
const MIN_BUCKETS: usize = 128;

/// Part of the buckets that are looked through for each new block: all of them several times
/// before a slot is used again.
const SWEPT_SHARE: u32 = MAX_BLOCKS as u32 / 4;

/// What the writers of a namespace hand on from turn to turn.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    moving: Moving,
    /// Tokens written since buckets were last split or merged.
    paid: usize,
    /// The newest block when the tables were last swept, and the buckets to go on with.
    newest: u64,
    swept: [u32; ORDERS.len()],
}

impl Upkeep {
    /// Does what `tokens` new tokens make necessary, and says whether levels can be given back.
    pub(super) fn run(&mut self, view: &View, tokens: usize) -> bool {
        self.paid += tokens;
        let buckets = self.paid / TOKENS_PER_BUCKET;
        if buckets >= MIN_BUCKETS {
            view.settle(buckets, &mut self.moving);
            self.paid = 0;
        }
        let next = view.next_id();
        if next > self.newest {
            self.sweep(view, next - self.newest);
            self.newest = next;
        }
        let mut tables = view.heads().iter().enumerate();
        tables.any(|(order, table)| table.has_spare_level(order, view.capacity()))
    }

    /// Empties heads that lead to dropped blocks, some for each of `num_blocks` new ones.
    fn sweep(&mut self, view: &View, num_blocks: u64) {
        for (order, from) in self.swept.iter_mut().enumerate() {
            let size = view.heads()[order].size();
            let share = u64::from(size / SWEPT_SHARE + 1) * num_blocks;
            let first = if *from < size { *from } else { 0 };
            let to = first + share.min(u64::from(size - first)) as u32;
            view.sweep(order, first, to);
            *from = to;
        }
    }
}
