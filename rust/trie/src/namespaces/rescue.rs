//! A second chance for old text that is useful: when its block goes, it is written again.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::SEPARATOR;
use crate::namespaces::document::{CONTEXT_TOKENS, Cells, Document};
use crate::store::block::Block;
use crate::store::view::View;

/// Most tokens written again in one turn, so that the other writers wait for a few milliseconds.
const TURN_TOKENS: usize = 4096;

/// Blocks that were taken out of the text and are to be written again. They count against the
/// budget until then.
#[derive(Debug, Default)]
pub(crate) struct Rescue {
    /// Set while a writer of the namespace, who can write them again, makes room.
    is_possible: AtomicBool,
    /// The oldest first, with the cells of the first that were written again.
    blocks: Mutex<Vec<(Arc<Block>, u32)>>,
}

impl Rescue {
    fn blocks(&self) -> MutexGuard<'_, Vec<(Arc<Block>, u32)>> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives up what waits, and says how many tokens that is.
    pub(crate) fn clear(&self) -> u64 {
        let mut tokens = 0;
        for (block, done) in self.blocks().drain(..) {
            block.disown();
            tokens += u64::from(block.num_tokens().saturating_sub(done));
        }
        tokens
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
        // One goes for each that stays, and the newest is being written.
        if !self.is_possible.load(Relaxed) || blocks.len() < 3 || oldest.credit() == 0 {
            return;
        }
        let sum =
            |of: fn(&Block) -> u32| blocks.iter().map(|block| u64::from(of(block))).sum::<u64>();
        let (credit, tokens) = (sum(Block::credit), sum(Block::num_tokens));
        if u64::from(oldest.credit()) * tokens > credit * u64::from(oldest.num_tokens()) {
            self.blocks()
                .extend(view.pop_oldest().map(|block| (block, 0)));
        }
    }

    /// Writes some of the text again. The caller has the writers' turn.
    pub(super) fn write(&self, cells: &impl Cells) {
        let mut left = TURN_TOKENS;
        while left > 0 {
            // Not held while text is written, which may take more out.
            let Some((block, done)) = self.blocks().first().cloned() else {
                return;
            };
            let end = write_again(&block, done, &mut left, cells);
            if let Some(newest) = cells.view().blocks().last() {
                let share = u64::from(end - done) * u64::from(block.credit() / 2);
                newest.add_credit((share / u64::from(block.end().max(1))) as u32);
            }
            let mut blocks = self.blocks();
            match blocks.first_mut() {
                Some((_, done)) if end < block.end() => *done = end,
                Some(_) => drop(blocks.remove(0)),
                None => {}
            }
        }
    }
}

/// Writes the documents of `block` from the cell `next` on again, `left` tokens of them. Gives
/// the cell to go on with.
pub(super) fn write_again(
    block: &Block,
    mut next: u32,
    left: &mut usize,
    cells: &impl Cells,
) -> u32 {
    let mut text = Vec::new();
    while next < block.end() && *left > 0 {
        let before = block.tokens_before(next).take(CONTEXT_TOKENS);
        let mut context: Vec<_> = before.take_while(|&token| token != SEPARATOR).collect();
        context.reverse();
        text.clear();
        while next < block.end() && *left > 0 {
            let token = block.token(next);
            *left -= 1;
            next += 1;
            if token == SEPARATOR {
                break;
            }
            if text.is_empty() && block.is_context(next - 1) {
                context.push(token);
            } else {
                text.push(token);
            }
        }
        let mut document = Document::after(context);
        document.push(&text, 0, cells);
        document.finish(cells);
    }
    next
}
