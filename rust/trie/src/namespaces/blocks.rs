//! The blocks of a namespace and the tables over them: added, dropped, restored.

use std::sync::Arc;

use spectrie_types::DropReason;

use crate::namespaces::document::Cells;
use crate::namespaces::rescue::Rescue;
use crate::namespaces::shared_trie::{SharedTrie, TURN_TOKENS};
use crate::store::block::Block;
use crate::store::chains::ORDERS;
use crate::store::heads::Table;
use crate::store::view::{MAX_BLOCKS, View};

impl SharedTrie {
    /// Adds a block, and what the tables need for it as far as the budget allows.
    pub(super) fn add_block(&self) -> Option<Arc<View>> {
        while self.view().blocks().len() >= MAX_BLOCKS {
            self.drop_oldest(DropReason::Share);
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
            self.drop_all(DropReason::NoRoom);
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
    pub(crate) fn restore(&self, mut restored: Vec<Block>, accepted_tokens: u64) {
        let mut upkeep = self.turn();
        if self.is_forgotten() || restored.is_empty() {
            return;
        }
        for block in &mut restored {
            block.move_to(&self.account);
        }
        self.add_accepted(accepted_tokens);
        if restored.len() + self.view().blocks().len() > MAX_BLOCKS {
            // Very small ones, which an earlier version made: their text goes into larger ones.
            let again = Rescue::default();
            for block in restored {
                block.disown();
                again.add(Arc::new(block));
                while !again.is_empty() {
                    // The tables grow as with taught text.
                    let written = again.write(TURN_TOKENS, self);
                    self.keep_up(&mut upkeep, written);
                }
            }
            return;
        }
        self.replace(|view| view.prepend(restored));
        self.add_levels();
        let view = self.view();
        view.spread();
        view.relink();
        upkeep.run(&view, 0);
    }

    /// Drops the oldest text, counted under `reason`, and gives its bytes: 0 if there is none. Text
    /// that was accepted more often than the whole is to be written again, at the price of the block
    /// after it.
    pub(super) fn drop_oldest(&self, reason: DropReason) -> usize {
        let dropped = self.replace(|view| {
            if reason == DropReason::Share {
                self.rescue.take(view);
            }
            let dropped = view.drop_oldest();
            for block in view.blocks() {
                block.halve_credit();
            }
            self.rescue.halve_credit();
            dropped
        });
        dropped.map_or(0, |block| {
            self.pool
                .note_dropped(reason, u64::from(block.num_tokens()));
            block.bytes()
        })
    }

    /// Gives up a block that waits to be written again, and gives its bytes: 0 if there is none.
    pub(super) fn drop_waiting(&self, reason: DropReason) -> usize {
        let Some((bytes, tokens)) = self.rescue.give_up() else {
            return 0;
        };
        self.pool.note_dropped(reason, tokens);
        bytes
    }

    /// Drops all text.
    pub(super) fn drop_all(&self, reason: DropReason) {
        while self.drop_waiting(reason) > 0 {}
        let mut tokens = 0;
        self.replace(|view| {
            while let Some(block) = view.drop_oldest() {
                tokens += u64::from(block.num_tokens());
            }
        });
        self.pool.note_dropped(reason, tokens);
    }
}

impl Cells for SharedTrie {
    fn view(&self) -> Arc<View> {
        self.view()
    }

    fn lose(&self, tokens: usize) {
        self.pool.note_dropped(DropReason::NoRoom, tokens as u64);
    }

    fn view_with_room(&self, tokens: usize) -> Option<Arc<View>> {
        let view = self.view();
        if view
            .blocks()
            .last()
            .is_some_and(|newest| newest.room() >= tokens)
        {
            return Some(view);
        }
        self.rescue.during(|| self.add_block())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::block_shape::BlockShape;
    use crate::store::chains::collect;
    use crate::testing::memory_disk::MemoryDisk;
    use crate::{DraftMemory, MemoryConfig, TokenId};

    #[test]
    fn text_of_more_blocks_than_there_may_be_is_found() {
        const NUM_BLOCKS: u32 = MAX_BLOCKS as u32 + 52;
        const TOKENS: u32 = 250;
        // Many contexts end alike, so that chains of too few buckets are long.
        let token = |number: u32| number.wrapping_mul(2_654_435_761) >> 12;
        let config = MemoryConfig::default();
        let memory = DraftMemory::on_disk(config, Arc::<MemoryDisk>::default()).unwrap();
        let shared = memory.namespace("a");
        let blocks = (0..NUM_BLOCKS).map(|number| {
            let shape = BlockShape {
                capacity: 256,
                end: TOKENS + 1,
                num_tokens: TOKENS,
                credit: 0,
            };
            let grant = shared
                .pool
                .grant_spare(Block::bytes_for(256), &shared.account);
            let mut block = Block::restored(shape, grant.unwrap());
            let text = number * TOKENS..(number + 1) * TOKENS;
            block.fill(0, text.map(token), std::iter::empty());
            block
        });
        shared.restore(blocks.collect(), 0);
        let num_tokens = u64::from(NUM_BLOCKS * TOKENS);
        let info = shared.info();
        assert_eq!((info.num_tokens, info.num_blocks < 500), (num_tokens, true));
        assert!(info.num_buckets >= num_tokens, "{info:?}");
        let view = shared.view();
        let is_found = |number: &u32| {
            let end = number * TOKENS + 100;
            let context: Vec<TokenId> = (end - 12..end).map(token).collect();
            let mut found = Vec::new();
            let mut limits = [16; ORDERS.len()];
            collect(&*view, 0, &context, &mut limits, &mut found);
            found.iter().any(|one| one.next == token(end))
        };
        let found = (0..NUM_BLOCKS).filter(is_found).count();
        assert_eq!(found, NUM_BLOCKS as usize);
    }
}
