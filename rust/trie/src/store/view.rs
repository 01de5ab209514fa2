//! The text of a namespace at one moment: its blocks, oldest first, and one index over them all.
//!
//! Blocks take the *slots* of a ring of addresses, one after the other; heads and links hold such
//! addresses. A reader counts positions from the oldest block of its view instead, so that a newer
//! one is larger. Whatever leads to a block that was dropped since leads nowhere.
//!
//! Chains lead from newer blocks to older ones, in any order within a block. Blocks are dropped
//! oldest first. So all that lies behind a dropped position was dropped too, and a link that leads
//! to a newer block is one whose slot was used again: both end a chain.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::store::block::Block;
use crate::store::chains::{Chains, ORDERS, suffix_hash, suffix_hashes};
use crate::store::extent::Extent;
use crate::store::grant::Grant;
use crate::store::heads::{Heads, Table};
use crate::store::sync::AtomicU32;
use crate::{SEPARATOR, TokenId};

/// Bits of an address that say where in its block it is.
pub(super) const CELL_BITS: u32 = 20;
const NUM_SLOTS: u64 = 1 << (u32::BITS - CELL_BITS);

/// Most blocks of a namespace: half the ring, so that old heads are found and emptied before the
/// slot that they lead to is used again.
pub(crate) const MAX_BLOCKS: usize = (NUM_SLOTS / 2) as usize;

/// Entries of newer blocks that a token may be linked behind. More than a draft takes, so a token
/// that has as many before it is not linked by that context.
const MAX_NEWER: usize = 64;

/// Tokens whose heads are fetched together.
const AHEAD: usize = 32;

/// The blocks of a namespace and their index. Copies share both.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// Number of the oldest block.
    first: u64,
    blocks: Vec<Arc<Block>>,
    /// Tokens that they could hold, and their bytes.
    capacity: u64,
    block_bytes: usize,
    pub(super) heads: Heads,
}

impl Default for View {
    fn default() -> Self {
        Self {
            // Far from 0, so that older blocks can be put before.
            first: 1 << 32,
            blocks: Vec::new(),
            capacity: 0,
            block_bytes: 0,
            heads: Heads::default(),
        }
    }
}

impl View {
    /// The blocks, oldest first.
    pub(crate) fn blocks(&self) -> &[Arc<Block>] {
        &self.blocks
    }

    /// The tables of heads.
    pub(crate) fn heads(&self) -> &Heads {
        &self.heads
    }

    /// Adds a level of `buckets` to the table of `order`, for whose bytes there is a `grant`,
    /// unless it no longer needs that one.
    pub(crate) fn add_level(&mut self, order: usize, buckets: usize, grant: Grant) {
        let capacity = self.capacity();
        if self.heads[order].missing_level(order, capacity) == Some(buckets) {
            self.heads[order].add_level(buckets, grant);
        }
    }

    /// Gives levels back that the tables do not need.
    pub(crate) fn drop_levels(&mut self) {
        let capacity = self.capacity();
        for (order, table) in self.heads.iter_mut().enumerate() {
            while table.has_spare_level(order, capacity) {
                table.drop_level();
            }
        }
    }

    /// Bytes of its tables that go back once they are as small as its text needs.
    pub(crate) fn surplus_bytes(&self) -> usize {
        let tables = self.heads.iter().enumerate();
        tables
            .map(|(order, table)| table.surplus_bytes(order, self.capacity))
            .sum()
    }

    /// Bytes that it would have without the oldest block, and without the surplus then.
    pub(crate) fn bytes_without_oldest(&self) -> usize {
        let [oldest, _, ..] = &self.blocks[..] else {
            return 0;
        };
        let capacity = self.capacity - oldest.capacity() as u64;
        let tables = self.heads.iter().enumerate();
        let heads =
            tables.map(|(order, table)| table.bytes() - table.surplus_bytes(order, capacity));
        self.block_bytes - oldest.bytes() + heads.sum::<usize>()
    }

    /// Tokens that its blocks could hold.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Bytes of its blocks and heads.
    pub(crate) fn bytes(&self) -> usize {
        let heads: usize = self.heads.iter().map(Table::bytes).sum();
        self.block_bytes + heads
    }

    /// The number of the block that comes next.
    pub(crate) fn next_id(&self) -> u64 {
        self.first + self.blocks.len() as u64
    }

    /// The block numbered `id`, if it is here.
    pub(crate) fn block(&self, id: u64) -> Option<&Arc<Block>> {
        let index = usize::try_from(id.checked_sub(self.first)?).ok()?;
        self.blocks.get(index)
    }

    /// The number of the oldest block.
    pub(crate) fn first_id(&self) -> u64 {
        self.first
    }

    /// The number of the block of `position`, and the cell in it.
    pub(crate) fn place(&self, position: u32) -> (u64, u32) {
        (
            self.first + u64::from(block_of(position)),
            cell_of(position),
        )
    }

    /// Adds the newest block, numbered [`View::next_id`].
    pub(crate) fn push(&mut self, block: Arc<Block>) {
        debug_assert_eq!(block.id(), self.next_id());
        self.capacity += block.capacity() as u64;
        self.block_bytes += block.bytes();
        self.blocks.push(block);
    }

    /// Takes the oldest block out; nothing leads to it any more.
    pub(crate) fn pop_oldest(&mut self) -> Option<Arc<Block>> {
        if self.blocks.is_empty() {
            return None;
        }
        self.first += 1;
        let oldest = self.blocks.remove(0);
        self.capacity -= oldest.capacity() as u64;
        self.block_bytes -= oldest.bytes();
        Some(oldest)
    }

    /// Takes the oldest block out and gives its bytes back, and those of the tables with the last
    /// one.
    pub(crate) fn drop_oldest(&mut self) -> Option<Arc<Block>> {
        let dropped = self.pop_oldest();
        if let Some(block) = &dropped {
            block.disown();
        }
        if self.blocks.is_empty() {
            self.heads.iter_mut().for_each(Table::clear);
        }
        dropped
    }

    /// Puts blocks before the oldest, themselves oldest first, and numbers them. No text is found
    /// until the tables have levels again and [`View::relink`] was called: old links may lead to
    /// where these blocks are now.
    pub(crate) fn prepend(&mut self, blocks: Vec<Block>) {
        self.heads.iter_mut().for_each(Table::clear);
        self.first -= blocks.len() as u64;
        let ids = self.first..;
        let numbered = blocks.into_iter().zip(ids).map(|(mut block, id)| {
            block.renumber(id);
            self.capacity += block.capacity() as u64;
            self.block_bytes += block.bytes();
            Arc::new(block)
        });
        let numbered: Vec<_> = numbered.collect();
        self.blocks.splice(0..0, numbered);
    }

    /// Writes the tokens of `text` from `first` on to an extent of the block numbered `id`, so that
    /// each can be found at once. Those before it in `text` come before it in the extent. The
    /// caller has the writers' turn, here and below.
    pub(crate) fn write(&self, id: u64, extent: &mut Extent, text: &[TokenId], first: usize) {
        let Some(block) = self.block(id) else { return };
        debug_assert!(text.len() - first <= extent.room());
        let cell = extent.next();
        for &token in &text[first..] {
            block.put(extent, token);
        }
        self.link(self.position(id, cell), text, first);
        // In this order, so that a save has what it counts.
        block.dirty().mark(cell..extent.next());
        block.add_tokens((text.len() - first) as u32);
    }

    /// Puts the tokens of `text` from `first` on, the first of which is at `position`, into the
    /// chains of their contexts.
    fn link(&self, position: u32, text: &[TokenId], first: usize) {
        let mut position = position;
        for start in (first..text.len()).step_by(AHEAD) {
            let indices = start..(start + AHEAD).min(text.len());
            let count = indices.len();
            let mut found = [[None; ORDERS.len()]; AHEAD];
            // Heads lie far from each other: they are fetched side by side before they are used.
            for (found, index) in found.iter_mut().zip(indices) {
                let (hashes, count) = suffix_hashes(&text[..index]);
                let orders = found.iter_mut().zip(&self.heads).zip(hashes);
                for ((found, table), hash) in orders.take(count) {
                    *found = table.cell_of(hash);
                }
            }
            let heads = found[..count].iter().flatten().flatten();
            black_box(heads.fold(0, |sum, head| sum ^ head.load(Relaxed)));
            for found in &found[..count] {
                for (order, head) in found.iter().enumerate() {
                    if let Some(head) = head {
                        self.link_into(order, head, position);
                    }
                }
                position += 1;
            }
        }
    }

    /// Puts `position` into the chain of `head`, behind what is in newer blocks.
    pub(super) fn link_into(&self, order: usize, head: &AtomicU32, position: u32) {
        let mut place = head;
        let mut next = self.live(head.load(Relaxed));
        for _ in 0..MAX_NEWER {
            if block_of(next) <= block_of(position) {
                if let Some(link) = self.cell(order, position) {
                    link.store(self.address(next), Relaxed);
                    place.store(self.address(position), Release);
                }
                return;
            }
            let Some(link) = self.cell(order, next) else {
                return;
            };
            next = self.older(next, link.load(Relaxed));
            place = link;
        }
    }

    /// The position of a cell of the block numbered `id`, which is here.
    fn position(&self, id: u64, cell: u32) -> u32 {
        ((id - self.first) as u32) << CELL_BITS | cell
    }

    /// The address of a position; 0 stays 0.
    pub(super) fn address(&self, position: u32) -> u32 {
        if position == 0 {
            return 0;
        }
        position.wrapping_add(self.base())
    }

    /// The position of an address; 0 if it is none of these blocks'.
    pub(super) fn live(&self, address: u32) -> u32 {
        let position = address.wrapping_sub(self.base());
        // The first cell of a block follows nothing, so nothing leads to it.
        if address != 0 && (block_of(position) as usize) < self.blocks.len() {
            position
        } else {
            0
        }
    }

    /// The position of an address that `position` links to; 0 where its chain ends.
    pub(super) fn older(&self, position: u32, address: u32) -> u32 {
        let next = self.live(address);
        if block_of(next) <= block_of(position) {
            next
        } else {
            0
        }
    }

    /// The address of the oldest block.
    fn base(&self) -> u32 {
        ((self.first % NUM_SLOTS) as u32) << CELL_BITS
    }

    /// The block and the cell of a position.
    pub(super) fn cell_at(&self, position: u32) -> Option<(&Block, u32)> {
        let block = self.blocks.get(block_of(position) as usize)?;
        Some((block, cell_of(position)))
    }

    /// The link of `order` at `position`.
    pub(super) fn cell(&self, order: usize, position: u32) -> Option<&AtomicU32> {
        let block = self.blocks.get(block_of(position) as usize)?;
        block.link(order, cell_of(position))
    }

    /// The hash of the context of `order` that `position` is linked by.
    pub(super) fn hash_at(&self, order: usize, position: u32) -> u32 {
        let block = self.blocks.get(block_of(position) as usize);
        block.map_or(0, |block| {
            suffix_hash(order, block.tokens_before(cell_of(position)))
        })
    }
}

/// The index of the block of a position.
pub(crate) fn block_of(position: u32) -> u32 {
    position >> CELL_BITS
}

fn cell_of(position: u32) -> u32 {
    position & ((1 << CELL_BITS) - 1)
}

impl Chains for View {
    fn end(&self) -> u32 {
        (self.blocks.len() as u32) << CELL_BITS
    }

    fn token(&self, position: u32) -> TokenId {
        let block = self.blocks.get(block_of(position) as usize);
        block.map_or(SEPARATOR, |block| block.token(cell_of(position)))
    }

    fn head(&self, order: usize, hash: u32) -> u32 {
        let head = self.heads[order].cell_of(hash);
        head.map_or(0, |head| self.live(head.load(Acquire)))
    }

    fn previous(&self, order: usize, position: u32) -> u32 {
        let link = self.cell(order, position);
        link.map_or(0, |link| self.older(position, link.load(Acquire)))
    }

    fn matched_before(&self, position: u32, context: &[TokenId]) -> usize {
        let Some(block) = self.blocks.get(block_of(position) as usize) else {
            return 0;
        };
        let before = block.tokens_before(cell_of(position));
        let pairs = before.zip(context.iter().rev());
        pairs
            .take_while(|(before, wanted)| before == *wanted)
            .count()
    }
}
