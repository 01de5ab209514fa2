//! A piece of the text of a namespace: one arena that readers walk while writers fill it.
//!
//! Every cell is an atomic. A token is written once, into a cell that held [`SEPARATOR`]; links are
//! set before anything leads to them. So a reader sees whole occurrences, or their start.
//!
//! Tokens are kept inverted, so that a cell that was never written, zero, holds the separator
//! (`u32::MAX`): then a new arena need not be filled, and costs its writer no time.

use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, PoisonError};

use crate::store::block_shape::BlockShape;
use crate::store::chains::ORDERS;
use crate::store::dirty::Dirty;
use crate::store::extent::Extent;
use crate::store::grant::{Account, Grant};
use crate::store::sync::{AtomicU32, fill, set, zeroed};
use crate::{SEPARATOR, TokenId};

/// The smallest range of cells worth using again, and how many are remembered.
const MIN_SPARE_TOKENS: u32 = 32;
const MAX_SPARES: usize = 64;

/// Cells of which one word says whether they hold context.
const CELLS_PER_WORD: usize = u32::BITS as usize;

/// An append-only arena of tokens and links. Writers take turns; any number of readers.
#[derive(Debug)]
pub(crate) struct Block {
    /// Its number in the namespace: blocks are numbered without gaps, oldest first.
    id: u64,
    /// What was written since it was saved.
    dirty: Dirty,
    /// Inverted.
    tokens: Box<[AtomicU32]>,
    /// One of each order per token: see [`crate::store::view::View`].
    links: Box<[AtomicU32]>,
    /// One bit per token: whether it repeats text as context, and cannot be found here.
    contexts: Box<[AtomicU32]>,
    /// Cells that belong to an extent, their separators included.
    end: AtomicU32,
    /// Tokens that can be found.
    num_tokens: AtomicU32,
    /// Cells that an extent gave back from the middle, each range followed by a separator.
    spares: Mutex<Vec<Range<u32>>>,
    /// Accepted draft tokens that came from here, halved at each eviction.
    credit: AtomicU32,
    /// Of the bytes of this arena, returned when it is freed.
    grant: Grant,
}

impl Block {
    /// An empty arena for `capacity` tokens, a power of two, for whose bytes there is a `grant`.
    pub(crate) fn new(id: u64, capacity: usize, grant: Grant) -> Self {
        debug_assert!(capacity.is_power_of_two());
        let block = Self {
            id,
            dirty: Dirty::new(capacity),
            tokens: zeroed(capacity),
            links: zeroed(capacity * ORDERS.len()),
            contexts: zeroed(capacity.div_ceil(CELLS_PER_WORD)),
            end: AtomicU32::new(0),
            num_tokens: AtomicU32::new(0),
            spares: Mutex::default(),
            credit: AtomicU32::new(0),
            grant,
        };
        debug_assert_eq!(block.bytes(), block.grant.bytes());
        block
    }

    /// Bytes of an arena for `capacity` tokens.
    pub(crate) fn bytes_for(capacity: usize) -> usize {
        let words = capacity * (1 + ORDERS.len()) + capacity.div_ceil(CELLS_PER_WORD);
        words * size_of::<u32>() + Dirty::bytes_for(capacity)
    }

    /// Bytes of this arena, counted from what it owns.
    pub(crate) fn bytes(&self) -> usize {
        let words = self.tokens.len() + self.links.len() + self.contexts.len();
        words * size_of::<u32>() + self.dirty.bytes()
    }

    /// What was written since it was saved.
    pub(crate) fn dirty(&self) -> &Dirty {
        &self.dirty
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Books its bytes to another account.
    pub(crate) fn move_to(&mut self, account: &Arc<Account>) {
        self.grant.move_to(account);
    }

    /// Gives a block that nobody else sees yet its number.
    pub(crate) fn renumber(&mut self, id: u64) {
        self.id = id;
    }

    pub(crate) fn capacity(&self) -> usize {
        self.tokens.len()
    }

    /// Cells that belong to an extent.
    pub(crate) fn end(&self) -> u32 {
        self.end.load(Acquire)
    }

    /// Tokens that can be found; those repeated as context are counted once. What is counted counts
    /// as written, and lies before [`Block::end`].
    pub(crate) fn num_tokens(&self) -> u32 {
        self.num_tokens.load(Acquire)
    }

    /// Tokens that a new extent can hold.
    pub(crate) fn room(&self) -> usize {
        (self.capacity() - self.end.load(Relaxed) as usize).saturating_sub(1)
    }

    /// Returns its bytes to the budget, since no namespace owns it any more.
    pub(crate) fn disown(&self) {
        self.grant.release();
    }

    pub(crate) fn credit(&self) -> u32 {
        self.credit.load(Relaxed)
    }

    pub(crate) fn add_credit(&self, tokens: u32) {
        self.credit.fetch_add(tokens, Relaxed);
    }

    pub(crate) fn halve_credit(&self) {
        self.credit.store(self.credit() / 2, Relaxed);
    }

    /// The token in a cell; the separator where there is none.
    pub(crate) fn token(&self, cell: u32) -> TokenId {
        let word = self.word(cell);
        word.map_or(SEPARATOR, |word| !word.load(Relaxed))
    }

    /// The word that a cell keeps its token in.
    pub(super) fn word(&self, cell: u32) -> Option<&AtomicU32> {
        self.tokens.get(cell as usize)
    }

    /// The tokens before a cell, the nearest first.
    pub(crate) fn tokens_before(&self, cell: u32) -> impl Iterator<Item = TokenId> {
        let before = self.tokens.get(..cell as usize).unwrap_or_default();
        before.iter().rev().map(|token| !token.load(Relaxed))
    }

    /// The link of `order` in a cell.
    pub(crate) fn link(&self, order: usize, cell: u32) -> Option<&AtomicU32> {
        self.links.get(cell as usize * ORDERS.len() + order)
    }

    /// Whether a cell repeats text as context.
    pub(crate) fn is_context(&self, cell: u32) -> bool {
        let (word, bit) = (cell as usize / CELLS_PER_WORD, cell % u32::BITS);
        let word = self.contexts.get(word);
        word.is_some_and(|word| word.load(Relaxed) & 1 << bit != 0)
    }

    /// Sets cells aside for `count` tokens, or for as many as fit. The caller has the writers'
    /// turn, here and below.
    pub(crate) fn reserve(&self, count: usize) -> Extent {
        let mut spares = self.spares.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = spares.iter().position(|spare| spare.len() >= count) {
            let Range { start, end } = spares.swap_remove(index);
            return Extent::new(start, end);
        }
        let start = self.end.load(Relaxed);
        let end = start + count.min(self.room()) as u32;
        self.end.store(end + 1, Release);
        Extent::new(start, end)
    }

    /// Gives an extent room for up to `count` more tokens, when no other came after it.
    pub(crate) fn grow(&self, extent: &mut Extent, count: usize) {
        if extent.end + 1 == self.end.load(Relaxed) {
            extent.end += count.min(self.capacity() - extent.end as usize - 1) as u32;
            self.end.store(extent.end + 1, Release);
        }
    }

    /// Takes back what an extent did not use.
    pub(crate) fn release(&self, extent: &Extent) {
        // A reader may still walk the text before: its separator stays.
        let separator = u32::from(extent.next > extent.start);
        let free = extent.next + separator;
        if extent.end + 1 == self.end.load(Relaxed) {
            self.end.store(free, Release);
        } else if free + MIN_SPARE_TOKENS <= extent.end {
            let mut spares = self.spares.lock().unwrap_or_else(PoisonError::into_inner);
            if spares.len() == MAX_SPARES {
                spares.swap_remove(0);
            }
            spares.push(free..extent.end);
        }
    }

    /// Repeats tokens that can be found elsewhere, as context of those that follow.
    pub(crate) fn write_context(&self, extent: &mut Extent, context: &[TokenId]) {
        debug_assert!(context.len() <= extent.room());
        let first = extent.next;
        for &token in context {
            let cell = extent.next as usize;
            let word = &self.contexts[cell / CELLS_PER_WORD];
            let bit = 1 << (extent.next % u32::BITS);
            word.store(word.load(Relaxed) | bit, Relaxed);
            // Whoever saves the token sees that it is context.
            self.tokens[cell].store(!token, Release);
            extent.next += 1;
        }
        self.dirty.mark(first..extent.next);
    }

    /// Writes the next token of an extent. Nothing leads to it yet.
    pub(super) fn put(&self, extent: &mut Extent, token: TokenId) {
        self.tokens[extent.next as usize].store(!token, Relaxed);
        extent.next += 1;
    }

    /// Counts tokens that can be found from now on, and were marked as written.
    pub(super) fn add_tokens(&self, count: u32) {
        self.num_tokens.fetch_add(count, Release);
    }

    /// What is to be known to load it, as it is now, of which `num_tokens` were counted before.
    pub(crate) fn shape(&self, num_tokens: u32) -> BlockShape {
        BlockShape {
            capacity: self.capacity() as u32,
            end: self.end(),
            num_tokens,
            credit: self.credit(),
        }
    }

    /// Appends what `cells`, the first of which is a multiple of 32, hold now, while others write
    /// on: the tokens, then the words that say which of them are context.
    pub(crate) fn copy(&self, cells: Range<u32>, to: &mut Vec<u8>) {
        let cells = cells.start as usize..cells.end as usize;
        for token in &self.tokens[cells.clone()] {
            to.extend_from_slice(&(!token.load(Acquire)).to_le_bytes());
        }
        let words = cells.start / CELLS_PER_WORD..cells.end.div_ceil(CELLS_PER_WORD);
        for word in &self.contexts[words] {
            to.extend_from_slice(&word.load(Relaxed).to_le_bytes());
        }
    }

    /// A block of `shape` whose text is still to be filled in. Nothing leads to it yet.
    pub(crate) fn restored(shape: BlockShape, grant: Grant) -> Self {
        let mut block = Self::new(0, shape.capacity as usize, grant);
        set(&mut block.end, shape.end);
        set(&mut block.num_tokens, shape.num_tokens);
        set(&mut block.credit, shape.credit);
        block
    }

    /// Fills in cells from `first` on, a multiple of 32, as [`Block::copy`] gave them. Nobody else
    /// sees the block yet.
    pub(crate) fn fill(
        &mut self,
        first: u32,
        tokens: impl Iterator<Item = TokenId>,
        contexts: impl Iterator<Item = u32>,
    ) {
        // The last cell of an extent is a separator, whatever the file says.
        let last = self.end().saturating_sub(1).saturating_sub(first);
        let first = first as usize;
        let tokens = tokens.take(last as usize).map(|token| !token);
        fill(&mut self.tokens[first..], tokens);
        fill(&mut self.contexts[first / CELLS_PER_WORD..], contexts);
    }

    /// Counts the text that was filled in: some may be missing, and some was written while the block
    /// was saved. Gives the tokens that are not there.
    pub(crate) fn recount(&mut self) -> u32 {
        let is_text = |cell: &u32| self.token(*cell) != SEPARATOR && !self.is_context(*cell);
        let found = (0..self.end()).filter(is_text).count() as u32;
        let missing = self.num_tokens().saturating_sub(found);
        set(&mut self.num_tokens, found);
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(capacity: usize) -> Block {
        Block::new(0, capacity, Grant::unbounded(Block::bytes_for(capacity)))
    }

    fn write(block: &Block, extent: &mut Extent, tokens: &[TokenId]) {
        for &token in tokens {
            block.put(extent, token);
        }
    }

    #[test]
    fn bytes_are_those_of_the_arena() {
        let block = block(1024);
        assert_eq!(block.bytes(), Block::bytes_for(1024));
        assert_eq!(block.bytes(), 20 * 1024 + 1024 / 8 + 4);
    }

    #[test]
    fn context_is_told_from_text() {
        let block = block(64);
        let mut extent = block.reserve(40);
        block.write_context(&mut extent, &(0..35).collect::<Vec<_>>());
        write(&block, &mut extent, &[7, 8]);
        let contexts = (0..64).filter(|&cell| block.is_context(cell));
        assert_eq!(contexts.collect::<Vec<_>>(), (0..35).collect::<Vec<_>>());
        assert_eq!(
            block.tokens_before(37).take(3).collect::<Vec<_>>(),
            [8, 7, 34]
        );
    }

    #[test]
    fn a_copy_fills_a_block_like_it() {
        let block = block(1024);
        let mut extent = block.reserve(400);
        block.write_context(&mut extent, &(0..35).collect::<Vec<_>>());
        write(&block, &mut extent, &(100..300).collect::<Vec<_>>());
        block.add_tokens(200);
        let mut copy = Vec::new();
        block.copy(0..block.end(), &mut copy);
        let (words, _) = copy.as_chunks::<4>();
        let words = words.iter().map(|word| u32::from_le_bytes(*word));
        let end = block.end() as usize;
        let grant = Grant::unbounded(block.bytes());
        let mut again = Block::restored(block.shape(200), grant);
        again.fill(0, words.clone().take(end), words.clone().skip(end));
        assert_eq!(again.shape(200), block.shape(200));
        assert_eq!((again.recount(), again.num_tokens()), (0, 200));
        for cell in 0..1024 {
            assert_eq!(again.token(cell), block.token(cell));
            assert_eq!(again.is_context(cell), block.is_context(cell));
        }
        let mut half = Block::restored(block.shape(200), Grant::unbounded(block.bytes()));
        half.fill(0, words.clone().take(135), words.skip(end));
        assert_eq!((half.recount(), half.num_tokens()), (100, 100));
    }

    #[test]
    fn unused_cells_at_the_end_come_back() {
        let block = block(64);
        let mut first = block.reserve(10);
        write(&block, &mut first, &[1, 2, 3]);
        assert_eq!(
            block.room(),
            52,
            "each extent has a separator, a new one needs its own"
        );
        block.release(&first);
        assert_eq!(block.room(), 59);
        assert_eq!(block.token(3), SEPARATOR);
        let empty = block.reserve(10);
        block.release(&empty);
        assert_eq!(block.room(), 59);
        let mut second = block.reserve(2);
        block.grow(&mut second, 3);
        assert_eq!((second.room(), block.room()), (5, 53));
        let third = block.reserve(100);
        assert_eq!((third.room(), block.room()), (53, 0));
        block.grow(&mut second, 3);
        assert_eq!(second.room(), 5, "another follows");
    }

    #[test]
    fn unused_cells_in_the_middle_are_used_again() {
        let block = block(256);
        let mut first = block.reserve(64);
        write(&block, &mut first, &[1, 2, 3]);
        let second = block.reserve(64);
        let room = block.room();
        block.release(&first);
        let mut third = block.reserve(60);
        assert_eq!((third.room(), block.room()), (60, room));
        write(&block, &mut third, &[3, 4]);
        let before: Vec<_> = block.tokens_before(third.next).collect();
        assert_eq!(
            before,
            [4, 3, SEPARATOR, 3, 2, 1],
            "a separator parts it from the text before"
        );
        block.release(&second);
        assert_eq!(block.room(), 255 - 65);
    }
}
