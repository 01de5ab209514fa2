//! A second chance for old text that is useful: when its block goes, it is written again.

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::namespaces::document::{CONTEXT_TOKENS, Cells, Document};
use crate::store::block::Block;
use crate::store::view::View;
use crate::{SEPARATOR, TokenId};

/// With fewer blocks none is taken out: one goes for each that stays, and the newest is being
/// written.
const MIN_BLOCKS: usize = 3;

/// Blocks that were taken out of the text and are to be written again. Until then they count
/// against the budget, and their tokens as held.
#[derive(Debug, Default)]
pub(crate) struct Rescue {
    /// Set while a writer of the namespace, who can write them again, makes room.
    is_possible: AtomicBool,
    /// The oldest first. Never held while text is written, which may take more out or give some up.
    waiting: Mutex<VecDeque<Waiting>>,
}

/// A block whose text is to be written again.
#[derive(Debug)]
struct Waiting {
    block: Arc<Block>,
    /// The cell to go on with.
    next: u32,
    /// Tokens from there on, and the credit that goes with them.
    num_tokens: u32,
    credit: u32,
    /// The document that goes on there.
    document: Option<Document>,
}

/// What is read of a block to be written at once.
#[derive(Debug)]
struct Piece {
    block_id: u64,
    document: Document,
    text: Vec<TokenId>,
    /// Whether the document ends with it.
    is_last: bool,
    /// Whether it is one token without any before it, beside damage.
    is_alone: bool,
    credit: u32,
}

impl Waiting {
    fn new(block: Arc<Block>) -> Self {
        Self {
            next: 0,
            num_tokens: block.num_tokens(),
            credit: block.credit(),
            document: None,
            block,
        }
    }

    fn is_done(&self) -> bool {
        self.next >= self.block.end()
    }

    /// Reads on to the end of the document, or for as many cells as are `left`.
    fn read(&mut self, left: &mut usize) -> Piece {
        let before = self.block.tokens_before(self.next).take(CONTEXT_TOKENS);
        let mut context: Vec<_> = before.take_while(|&token| token != SEPARATOR).collect();
        context.reverse();
        let (mut text, mut is_last) = (Vec::new(), false);
        // The first token of a document is not written without the second.
        while !self.is_done() && (*left > 0 || context.is_empty() && text.len() == 1) {
            let token = self.block.token(self.next);
            let is_context = self.block.is_context(self.next);
            self.next += 1;
            *left = left.saturating_sub(1);
            is_last = token == SEPARATOR;
            if is_last {
                break;
            } else if is_context && text.is_empty() {
                context.push(token);
            } else {
                text.push(token);
            }
        }
        let is_alone = context.is_empty() && text.len() == 1;
        let document = self.document.take();
        Piece {
            block_id: self.block.id(),
            is_alone,
            is_last: is_last || self.is_done(),
            credit: self.hand_on(text.len() as u32),
            document: document.unwrap_or_else(|| Document::after(context)),
            text,
        }
    }

    /// Takes out so many tokens, and gives their part of the credit.
    fn hand_on(&mut self, tokens: u32) -> u32 {
        let part = u64::from(self.credit) * u64::from(tokens) / u64::from(self.num_tokens.max(1));
        let part = (part as u32).min(self.credit);
        self.credit -= part;
        self.num_tokens = self.num_tokens.saturating_sub(tokens);
        part
    }
}

impl Rescue {
    fn waiting(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting().is_empty()
    }

    /// Blocks that wait, and their tokens that were not written again.
    pub(super) fn size(&self) -> (usize, u64) {
        let waiting = self.waiting();
        let tokens = waiting.iter().map(|one| u64::from(one.num_tokens));
        (waiting.len(), tokens.sum())
    }

    /// Bytes of the blocks that wait.
    pub(super) fn bytes(&self) -> usize {
        self.waiting().iter().map(|one| one.block.bytes()).sum()
    }

    /// Adds a block that is in no text.
    pub(super) fn add(&self, block: Arc<Block>) {
        self.waiting().push_back(Waiting::new(block));
    }

    /// Gives up the block that waits longest. Says how many bytes and tokens that is. Cells set aside
    /// for its open document stay empty: only who has the writers' turn can give them back.
    pub(super) fn give_up(&self) -> Option<(usize, u64)> {
        let one = self.waiting().pop_front()?;
        one.block.disown();
        Some((one.block.bytes(), u64::from(one.num_tokens)))
    }

    /// Whether what waits stays, since room is made for it in text of `num_blocks`.
    pub(super) fn outlives(&self, num_blocks: usize) -> bool {
        self.is_possible.load(Relaxed) && num_blocks >= MIN_BLOCKS
    }

    /// Allows blocks to be taken out while `work` makes room.
    pub(super) fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        self.is_possible.store(true, Relaxed);
        let result = work();
        self.is_possible.store(false, Relaxed);
        result
    }

    /// Takes the oldest block of `view` out, if its tokens were accepted more often than those of
    /// the whole.
    pub(super) fn take(&self, view: &mut View) {
        let blocks = view.blocks();
        let Some(oldest) = blocks.first() else { return };
        if !self.outlives(blocks.len()) || oldest.credit() == 0 {
            return;
        }
        let sum =
            |of: fn(&Block) -> u32| blocks.iter().map(|block| u64::from(of(block))).sum::<u64>();
        let (credit, tokens) = (sum(Block::credit), sum(Block::num_tokens));
        if u64::from(oldest.credit()) * tokens > credit * u64::from(oldest.num_tokens())
            && let Some(oldest) = view.pop_oldest()
        {
            self.add(oldest);
        }
    }

    /// Halves the credit of what waits, as an eviction does that of the text.
    pub(super) fn halve_credit(&self) {
        for one in &mut *self.waiting() {
            one.credit /= 2;
        }
    }

    /// Writes text again, read from up to `most` cells, and says how many tokens. The caller has
    /// the writers' turn.
    pub(super) fn write(&self, most: usize, cells: &impl Cells) -> usize {
        let (mut left, mut written) = (most, 0);
        while let Some(mut piece) = self.read(&mut left) {
            written += piece.text.len();
            if piece.is_alone {
                cells.lose(1);
            }
            piece.document.push(&piece.text, 0, cells);
            if let Some(newest) = cells.view().blocks().last() {
                newest.add_credit(piece.credit);
            }
            if piece.is_last {
                piece.document.finish(cells);
            } else if !piece.text.is_empty() {
                self.put_back(piece.block_id, piece.document, cells);
            }
        }
        written
    }

    /// The next text to write, out of the cells that are `left`.
    fn read(&self, left: &mut usize) -> Option<Piece> {
        if *left == 0 {
            return None;
        }
        let mut waiting = self.waiting();
        let first = waiting.front_mut()?;
        let piece = first.read(left);
        if first.is_done() {
            waiting.pop_front();
        }
        Some(piece)
    }

    /// Keeps a document open for the next turn, unless its block was given up.
    fn put_back(&self, block_id: u64, mut document: Document, cells: &impl Cells) {
        let mut waiting = self.waiting();
        let first = waiting.front_mut();
        if let Some(first) = first.filter(|one| one.block.id() == block_id) {
            first.document = Some(document);
            return;
        }
        // Who changes the view may wait for this.
        drop(waiting);
        document.finish(cells);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::Path;

    use super::*;
    use crate::testing::memory_disk::MemoryDisk;
    use crate::{DraftMemory, MemoryConfig, SharedTrie};

    /// A memory of 16 MiB that counts what it is taught.
    struct World {
        memory: DraftMemory,
        disk: Arc<MemoryDisk>,
        taught: u64,
    }

    impl World {
        fn new() -> Self {
            let disk = Arc::<MemoryDisk>::default();
            Self {
                memory: Self::memory(&disk),
                disk,
                taught: 0,
            }
        }

        fn memory(disk: &Arc<MemoryDisk>) -> DraftMemory {
            let config = MemoryConfig {
                capacity_bytes: 16 << 20,
                ..MemoryConfig::default()
            };
            DraftMemory::on_disk(config, Arc::<MemoryDisk>::clone(disk)).unwrap()
        }

        fn teach(&mut self, shared: &SharedTrie, tokens: u32) {
            let first = self.taught as u32;
            shared.insert(&(first..first + tokens).collect::<Vec<_>>());
            self.taught += u64::from(tokens);
            self.check();
        }

        /// Every token is held or counted as dropped.
        fn check(&self) {
            let dropped: u64 = self.memory.dropped_tokens().iter().sum();
            assert_eq!(self.memory.num_tokens() + dropped, self.taught);
            assert!(self.memory.bytes() <= 16 << 20);
        }

        /// A full namespace whose oldest block was useful, and waits to be written again.
        fn waiting(&mut self) -> Arc<SharedTrie> {
            let shared = self.memory.namespace("a");
            self.teach(&shared, 5000);
            while shared.view().blocks()[0].capacity() < 1 << 15 {
                self.teach(&shared, 5000);
            }
            shared.credit(shared.view().first_id(), 1 << 20);
            while shared.rescue.is_empty() {
                self.teach(&shared, 300);
            }
            assert!(shared.rescue.size().1 > 10_000);
            shared
        }
    }

    /// Tokens that drafts can find.
    fn visible(shared: &SharedTrie) -> u64 {
        let view = shared.view();
        let blocks = view.blocks().iter();
        blocks.map(|block| u64::from(block.num_tokens())).sum()
    }

    #[test]
    fn what_waits_counts_as_held_until_it_is_text_again() {
        let mut world = World::new();
        let shared = world.waiting();
        let block = shared.rescue.waiting()[0].block.clone();
        assert!(world.memory.num_tokens() > visible(&shared));
        let mut turns = 0;
        while !shared.rescue.is_empty() {
            world.teach(&shared, 20);
            turns += 1;
        }
        assert!(turns > 2);
        assert_eq!(world.memory.num_tokens(), visible(&shared));
        // It is all there, and so is its credit, halved by the evictions.
        let view = shared.view();
        let tokens = |block: &Block| (0..block.end()).map(|cell| block.token(cell)).collect();
        let found: HashSet<_> = view
            .blocks()
            .iter()
            .flat_map(|block| -> Vec<_> { tokens(block) })
            .collect();
        assert!(tokens(&block).iter().all(|token| found.contains(token)));
        let credit: u32 = view.blocks().iter().map(|block| block.credit()).sum();
        assert!(credit >= 1 << 16, "{credit}");
    }

    #[test]
    fn a_document_that_is_written_again_bit_by_bit_stays_in_one_piece() {
        let mut world = World::new();
        let shared = world.waiting();
        while !shared.rescue.is_empty() {
            world.teach(&shared, 2);
        }
        let view = shared.view();
        for block in &view.blocks()[view.blocks().len() - 2..] {
            let contexts = (0..block.end()).filter(|&cell| block.is_context(cell));
            let (contexts, tokens) = (contexts.count(), block.num_tokens() as usize);
            assert!(contexts * 8 < tokens, "{contexts} for {tokens}");
        }
    }

    #[test]
    fn a_lesson_writes_again_by_its_own_tokens() {
        let mut world = World::new();
        let shared = world.waiting();
        for (tokens, most) in [(3, 64), (4, 64), (5, 80), (100, 1600), (3000, 4096)] {
            let before = shared.rescue.size().1;
            world.teach(&shared, tokens);
            let written = before - shared.rescue.size().1;
            let expected = most * 9 / 10..=most;
            assert!(expected.contains(&written), "{written} with {tokens}");
        }
    }

    #[test]
    fn others_get_what_waits_before_text_that_can_be_found() {
        let mut world = World::new();
        let shared = world.waiting();
        let before = visible(&shared);
        let other = world.memory.namespace("b");
        while visible(&shared) == before {
            let waiting = shared.rescue.size().1;
            world.teach(&other, 1000);
            assert!(visible(&shared) == before || waiting == 0, "{waiting} wait");
        }
        for number in 0..60 {
            let other = world.memory.namespace(&format!("{number}"));
            world.teach(&other, 30_000);
        }
        // Its blocks are larger than its share, of which it keeps as much as they allow.
        assert!(visible(&shared) > 0 && shared.rescue.is_empty());
    }

    #[test]
    fn a_save_holds_what_waited() {
        let mut world = World::new();
        let shared = world.waiting();
        let saved = world.memory.save(Path::new("/state"), "abc").unwrap();
        world.check();
        assert!(shared.rescue.is_empty());
        let again = World::memory(&world.disk);
        again.restore(Path::new("/state"), "abc").unwrap();
        assert_eq!(saved.num_tokens, world.memory.num_tokens());
        assert_eq!(again.num_tokens(), world.memory.num_tokens());
    }

    #[test]
    fn nothing_is_written_again_in_a_forgotten_namespace() {
        let mut world = World::new();
        let shared = world.waiting();
        world.memory.forget("a").unwrap();
        shared.write_waiting();
        assert_eq!((visible(&shared), shared.info().num_tokens), (0, 0));
        assert_eq!(world.memory.bytes(), 0);
        world.check();
    }
}
