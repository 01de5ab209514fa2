//! What the index of a namespace needs beside new text: blocks, levels of its tables, buckets.

use crate::store::chains::ORDERS;
use crate::store::resize::Moving;
use crate::store::view::{MAX_BLOCKS, View};

/// Buckets that each written token splits or merges at most, of each order. Growing text needs half
/// of one.
const BUCKETS_PER_TOKEN: usize = 1;

/// Buckets that are split or merged together, since they are fetched side by side.
const MIN_BUCKETS: usize = 16;

/// Part of the buckets that are looked through for each new block: all of them several times
/// before a slot is used again.
const SWEPT_SHARE: u32 = MAX_BLOCKS as u32 / 4;

/// What the writers of a namespace hand on from turn to turn.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    moving: Moving,
    /// Buckets to split or merge that written tokens have paid for.
    owed: usize,
    /// The newest block when the tables were last swept, and the buckets to go on with.
    newest: u64,
    swept: [u32; ORDERS.len()],
}

impl Upkeep {
    /// Does what `tokens` new tokens make necessary, and says whether levels can be given back.
    pub(super) fn run(&mut self, view: &View, tokens: usize) -> bool {
        self.owed += tokens * BUCKETS_PER_TOKEN;
        if self.owed >= MIN_BUCKETS {
            view.settle(self.owed, &mut self.moving);
            self.owed = 0;
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
