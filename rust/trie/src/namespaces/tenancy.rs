//! A namespace as a tenant of the byte budget: what it gives back first.

use std::sync::Arc;

use spectrie_types::DropReason;

use crate::budget::pool::Tenant;
use crate::budget::weights::MemberId;
use crate::namespaces::shared_trie::SharedTrie;
use crate::store::grant::{Account, Grant, Room};

/// Tokens whose share of upkeep a tenant does at once when it is asked for its surplus.
const TIGHTENED_TOKENS: usize = 4096;

impl SharedTrie {
    /// Accepted tokens for each byte of text; one token more is taken for granted, as for the table.
    /// `None` without text.
    fn usefulness_of_text(&self) -> Option<f64> {
        let view = self.view();
        let blocks = view.blocks().iter();
        let credit: f64 = blocks.map(|block| f64::from(block.credit())).sum();
        (!view.blocks().is_empty()).then(|| (credit + 1.0) / view.bytes() as f64)
    }

    /// Whether it would have `left_bytes` without its oldest block, beside what waits to be written
    /// again, which does not last.
    fn may_lose_oldest(&self, left_bytes: usize) -> bool {
        let view = self.view();
        let passing = view.bytes() + self.rescue.bytes();
        let others = self.account.bytes().saturating_sub(passing);
        others + view.bytes_without_oldest() >= left_bytes
    }

    /// Gives back what is worth least to it and leaves `left_bytes`. Says how many bytes; 0 if there
    /// is nothing.
    fn give_next(&self, left_bytes: usize, reason: DropReason) -> usize {
        let makes_own_room = reason == DropReason::Share;
        if !(makes_own_room && self.rescue.outlives(self.view().blocks().len()))
            && let bytes @ 1.. = self.drop_waiting(reason)
        {
            return bytes;
        }
        let table_goes = match (self.recycled.usefulness(), self.usefulness_of_text()) {
            (Some(table), Some(text)) => table < text,
            (table, _) => table.is_some(),
        };
        if table_goes {
            self.recycled.shrink()
        } else if self.may_lose_oldest(left_bytes) {
            self.recycled.halve_credit();
            self.drop_oldest(reason)
        } else {
            0
        }
    }
}

impl Tenant for SharedTrie {
    fn account(&self) -> &Arc<Account> {
        &self.account
    }

    fn member(&self) -> MemberId {
        self.member
    }

    fn requests(&self) -> &Arc<Account> {
        &self.requests
    }

    fn surplus_bytes(&self) -> usize {
        self.view().surplus_bytes()
    }

    fn tighten(&self) -> bool {
        // Who writes does it, at the latest when the turn ends.
        let Some(mut upkeep) = self.try_turn() else {
            return false;
        };
        self.keep_up(&mut upkeep, TIGHTENED_TOKENS);
        true
    }

    /// What waits to be written again goes first, unless its own writer makes room for it. The
    /// table goes before text when it earned fewer accepted tokens for each byte.
    fn shrink(&self, bytes: usize, left_bytes: usize, reason: DropReason) -> usize {
        let before = self.account.bytes();
        loop {
            let given = before.saturating_sub(self.account.bytes());
            if given >= bytes || self.give_next(left_bytes, reason) == 0 {
                return given;
            }
        }
    }
}

impl Room for SharedTrie {
    fn ask(&self, bytes: usize) -> Option<Grant> {
        self.pool.grant_to_request(bytes, self)
    }
}
