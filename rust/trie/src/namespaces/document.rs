//! A document that is being written to the blocks of a namespace.

use std::sync::Arc;

use crate::store::block::Block;
use crate::store::extent::{Extent, InsertedRange};
use crate::store::view::View;
use crate::{SEPARATOR, TokenId};

/// Tokens set aside for a running request at first; doubled each time up to the most.
pub(super) const MIN_EXTENT_TOKENS: usize = 64;
const MAX_EXTENT_TOKENS: usize = 1024;

/// A running request sets aside one part in so many of a block at most. In a small share, whose
/// blocks are small, many requests would else push each other's text out with room that none uses.
const EXTENT_PARTS: usize = 8;

/// Tokens repeated, as context, where a document goes on in another place.
pub(crate) const CONTEXT_TOKENS: usize = 24;

/// The text that a document is written to.
pub(crate) trait Cells {
    /// The blocks and their index as they are now.
    fn view(&self) -> Arc<View>;
    /// The same, once the newest block has room for `tokens` at least. The caller has the writers'
    /// turn.
    fn view_with_room(&self, tokens: usize) -> Option<Arc<View>>;
    /// Notes that so many tokens are not inserted, since there is no room.
    fn lose(&self, tokens: usize);
}

/// A document that is being written.
#[derive(Debug)]
pub(crate) struct Document {
    /// The latest tokens: those written already, as context, and then those that were not yet.
    window: Vec<TokenId>,
    /// How many of them were written.
    written: usize,
    /// Where it is written: a block by its number, since holding it would keep it from being freed.
    place: Option<(u64, Extent)>,
    /// Tokens to set aside at least when room is needed.
    min_tokens: usize,
    /// Every place so far.
    ranges: Vec<InsertedRange>,
}

impl Document {
    /// An empty document that sets `min_tokens` aside at first; 0 = those it has, no more.
    pub(crate) fn new(min_tokens: usize) -> Self {
        Self {
            window: Vec::new(),
            written: 0,
            place: None,
            min_tokens,
            ranges: Vec::new(),
        }
    }

    /// A document that goes on after `context`, which is not written again as text, bit by bit.
    pub(crate) fn after(context: Vec<TokenId>) -> Self {
        Self {
            written: context.len(),
            window: context,
            ..Self::new(MIN_EXTENT_TOKENS)
        }
    }

    /// Every place it was written to, oldest first.
    pub(crate) fn ranges(&self) -> &[InsertedRange] {
        &self.ranges
    }

    /// Writes `tokens`, after which `more` are to come at once. The caller has the writers' turn.
    pub(crate) fn push(&mut self, tokens: &[TokenId], more: usize, cells: &impl Cells) {
        let mut parts = tokens.split(|&token| token == SEPARATOR);
        if let Some(part) = parts.next() {
            self.push_part(part, more, cells);
        }
        for part in parts {
            self.finish(cells);
            self.push_part(part, more, cells);
        }
    }

    fn push_part(&mut self, tokens: &[TokenId], more: usize, cells: &impl Cells) {
        self.window.extend_from_slice(tokens);
        // One token alone has nothing to be found by.
        while self.written < self.window.len() && self.window.len() > 1 {
            let missing = self.window.len() - self.written;
            let Some(view) = self.make_room(missing + more, cells) else {
                // The budget is too small: the text is not inserted.
                cells.lose(missing);
                self.written = self.window.len();
                break;
            };
            let Some((id, extent)) = &mut self.place else {
                break;
            };
            let end = self.written + missing.min(extent.room());
            view.write(*id, extent, &self.window[..end], self.written);
            self.written = end;
        }
        let old = self.written.saturating_sub(CONTEXT_TOKENS);
        self.window.drain(..old);
        self.written -= old;
    }

    /// The text to write to, in which the extent has room for a token at least and for `count` if
    /// that can be.
    fn make_room(&mut self, count: usize, cells: &impl Cells) -> Option<Arc<View>> {
        if let Some((id, extent)) = &mut self.place {
            let view = cells.view();
            // It may have been evicted since.
            if let Some(block) = view.block(*id) {
                if extent.room() == 0 {
                    let wanted = count.max(spare_tokens(self.min_tokens, block));
                    block.grow(extent, wanted);
                    if let Some(range) = self.ranges.last_mut() {
                        range.follow(extent);
                    }
                    self.min_tokens = (self.min_tokens * 2).min(MAX_EXTENT_TOKENS);
                }
                if extent.room() > 0 {
                    return Some(view);
                }
            }
        }
        self.place = None;
        let context = &self.window[self.written.saturating_sub(CONTEXT_TOKENS)..self.written];
        let view = cells.view_with_room(context.len() + 2)?;
        let block = view.blocks().last()?;
        let spare = spare_tokens(self.min_tokens, block);
        let mut extent = block.reserve(context.len() + count.max(spare));
        self.min_tokens = (self.min_tokens * 2).min(MAX_EXTENT_TOKENS);
        block.write_context(&mut extent, context);
        self.ranges.push(InsertedRange::new(block.id(), &extent));
        self.place = Some((block.id(), extent));
        Some(view)
    }

    /// Ends the document; the next token begins another. The caller has the writers' turn.
    pub(crate) fn finish(&mut self, cells: &impl Cells) {
        if let Some((id, extent)) = self.place.take()
            && let Some(block) = cells.view().block(id)
        {
            block.release(&extent);
        }
        self.window.clear();
        self.written = 0;
    }
}

/// Tokens to set aside in `block` where `min_tokens` are wished for.
fn spare_tokens(min_tokens: usize, block: &Block) -> usize {
    min_tokens.min((block.capacity() / EXTENT_PARTS).max(MIN_EXTENT_TOKENS))
}
