//! What the index of a namespace needs beside new text: blocks, levels of its tables, buckets.

use std::sync::Arc;

use crate::namespaces::pool::Tenant;
use crate::namespaces::shared_trie::SharedTrie;
use crate::store::block::Block;
use crate::store::chains::ORDERS;
use crate::store::heads::Table;
use crate::store::resize::Moving;
use crate::store::view::{MAX_BLOCKS, View};

/// Buckets that each written token splits or merges at most, of each order. Growing text needs half
/// of one.
const BUCKETS_PER_TOKEN: usize = 1;

/// Part of the buckets that are looked through for each new block: all of them several times
/// before a slot is used again.
const SWEPT_SHARE: u32 = MAX_BLOCKS as u32 / 4;

/// What the writers of a namespace hand on from turn to turn.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    moving: Moving,
    /// The newest block when the tables were last swept, and the buckets to go on with.
    newest: u64,
    swept: [u32; ORDERS.len()],
}

impl Upkeep {
    /// Does what `tokens` new tokens of `shared` make necessary.
    pub(super) fn run(&mut self, shared: &SharedTrie, tokens: usize) {
        let view = shared.view();
        view.settle(tokens * BUCKETS_PER_TOKEN, &mut self.moving);
        let next = view.next_id();
        if next > self.newest {
            self.sweep(&view, next - self.newest);
            self.newest = next;
        }
        if view
            .heads()
            .iter()
            .enumerate()
            .any(|(order, table)| table.has_spare_level(order, view.capacity()))
        {
            shared.replace(View::drop_levels);
        }
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

impl SharedTrie {
    /// Adds a block, and what the tables need for it as far as the budget allows.
    pub(super) fn add_block(&self) -> Option<Arc<View>> {
        while self.num_blocks() >= MAX_BLOCKS {
            self.drop_oldest();
        }
        let view = self.view();
        let block = self
            .pool
            .block_after(view.capacity(), view.next_id(), self)?;
        let block = Arc::new(block);
        self.replace(|view| view.push(block));
        self.add_levels();
        let view = self.view();
        if view.heads().iter().any(|table| table.size() == 0) {
            // No table fits beside it: nothing could be found.
            self.replace(|view| while view.drop_oldest().is_some() {});
            return None;
        }
        Some(view)
    }

    /// Adds the levels that the tables need for the text, as far as the budget allows.
    fn add_levels(&self) {
        for order in 0..ORDERS.len() {
            loop {
                let view = self.view();
                if view.blocks().is_empty() {
                    return;
                }
                let missing = view.heads()[order].missing_level(order, view.capacity());
                let Some(buckets) = missing else { break };
                let Some(grant) = self.pool.grant(Table::level_bytes(buckets), self) else {
                    break;
                };
                // The text may have been dropped to make room, and the table with it.
                self.replace(|view| view.add_level(order, buckets, grant));
            }
        }
    }

    /// Puts blocks, oldest first, before those that there are. Their drafts were accepted
    /// `accepted_tokens` times.
    pub(crate) fn restore(&self, restored: Vec<Block>, accepted_tokens: u64) {
        let mut upkeep = self.turn();
        if self.is_forgotten() || restored.is_empty() {
            return;
        }
        self.add_accepted(accepted_tokens);
        if restored.len() + self.num_blocks() > MAX_BLOCKS {
            // Very small ones, which an earlier version made: their text goes into larger ones.
            for block in restored {
                block.disown();
                self.write_again(&block, 0, &mut usize::MAX.clone());
            }
            return;
        }
        self.replace(|view| view.prepend(restored));
        self.add_levels();
        let view = self.view();
        view.spread();
        for block in view.blocks() {
            view.relink(block.id());
        }
        upkeep.run(self, 0);
    }
}
