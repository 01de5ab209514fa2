//! Inserting a document into a namespace, whole or while it is being produced.

use std::sync::Arc;

use crate::store::extent::{Extent, InsertedRange};
use crate::store::segment::Segment;
use crate::{SEPARATOR, SharedTrie, TokenId};

/// Tokens set aside for a running request at first; doubled each time up to the most.
const MIN_EXTENT_TOKENS: usize = 64;
const MAX_EXTENT_TOKENS: usize = 1024;

/// Tokens repeated, as context, where a document goes on in another place.
pub(crate) const CONTEXT_TOKENS: usize = 24;

/// Most tokens written in one turn, so that other writers wait for a few milliseconds at most.
pub(crate) const TURN_TOKENS: usize = 4096;

/// The text of one running request on its way into its namespace: each token can be drafted by
/// the namespace's other requests as soon as it is pushed.
///
/// Made by [`SharedTrie::begin`]; dropping it ends the document. When the namespace is forgotten,
/// nothing more of the request is inserted.
#[derive(Debug)]
pub struct Insertion {
    shared: Arc<SharedTrie>,
    document: Document,
}

impl Insertion {
    pub(crate) fn new(shared: Arc<SharedTrie>) -> Self {
        Self {
            shared,
            document: Document::new(MIN_EXTENT_TOKENS),
        }
    }

    /// Where the text was written: what its own request must not take for another's.
    pub fn ranges(&self) -> &[InsertedRange] {
        &self.document.ranges
    }

    /// Appends tokens to the document, in order; [`SEPARATOR`] ends it and begins another.
    /// Constant time per token; other writers of the namespace wait meanwhile, readers never.
    pub fn push(&mut self, tokens: &[TokenId]) {
        self.shared.append(&mut self.document, tokens);
    }
}

impl Drop for Insertion {
    fn drop(&mut self) {
        self.shared.finish(&mut self.document);
    }
}

/// A document that is being written.
#[derive(Debug)]
pub(crate) struct Document {
    /// The latest tokens: those written already, as context, and then those that were not yet.
    window: Vec<TokenId>,
    /// How many of them were written.
    written: usize,
    /// Where it is written: a segment by its id, since holding it would keep it from being freed.
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

    /// Writes `tokens`, after which `more` are to come at once. The caller has the writers' turn.
    pub(crate) fn push(&mut self, tokens: &[TokenId], more: usize, shared: &SharedTrie) {
        let mut parts = tokens.split(|&token| token == SEPARATOR);
        if let Some(part) = parts.next() {
            self.push_part(part, more, shared);
        }
        for part in parts {
            self.finish(shared);
            self.push_part(part, more, shared);
        }
    }

    fn push_part(&mut self, tokens: &[TokenId], more: usize, shared: &SharedTrie) {
        self.window.extend_from_slice(tokens);
        // One token alone has nothing to be found by.
        while self.written < self.window.len() && self.window.len() > 1 {
            let missing = self.window.len() - self.written;
            let Some(segment) = self.make_room(missing + more, shared) else {
                // The budget is too small: the text is not inserted.
                self.written = self.window.len();
                break;
            };
            let Some((_, extent)) = &mut self.place else {
                break;
            };
            let end = self.written + missing.min(extent.room());
            segment.write(extent, &self.window[..end], self.written);
            self.written = end;
        }
        let old = self.written.saturating_sub(CONTEXT_TOKENS);
        self.window.drain(..old);
        self.written -= old;
    }

    /// The segment to write to, whose extent has room for a token at least and for `count` if
    /// that can be.
    fn make_room(&mut self, count: usize, shared: &SharedTrie) -> Option<Arc<Segment>> {
        if let Some((id, extent)) = &mut self.place {
            // It may have been evicted since.
            let segment = shared.segment(*id);
            if let Some(segment) = segment {
                if extent.room() == 0 {
                    let wanted = count.max(self.min_tokens);
                    segment.grow(extent, wanted);
                    if let Some(range) = self.ranges.last_mut() {
                        range.follow(extent);
                    }
                    self.min_tokens = (self.min_tokens * 2).min(MAX_EXTENT_TOKENS);
                }
                if extent.room() > 0 {
                    return Some(segment);
                }
            }
        }
        self.place = None;
        let context = &self.window[self.written.saturating_sub(CONTEXT_TOKENS)..self.written];
        let segment = shared.segment_with_room(context.len() + 2)?;
        let mut extent = segment.reserve(context.len() + count.max(self.min_tokens));
        self.min_tokens = (self.min_tokens * 2).min(MAX_EXTENT_TOKENS);
        segment.write_context(&mut extent, context);
        self.ranges.push(InsertedRange::new(segment.id(), &extent));
        self.place = Some((segment.id(), extent));
        Some(segment)
    }

    /// Ends the document; the next token begins another. The caller has the writers' turn.
    pub(crate) fn finish(&mut self, shared: &SharedTrie) {
        if let Some((id, extent)) = self.place.take()
            && let Some(segment) = shared.segment(id)
        {
            segment.release(&extent);
        }
        self.window.clear();
        self.written = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::chains::{ORDERS, collect};
    use crate::{DraftMemory, MemoryConfig};
    use proptest::prelude::*;

    /// What follows `context` and how much of it matched, in no order.
    fn followers(shared: &SharedTrie, context: &[TokenId]) -> Vec<(TokenId, u16)> {
        let mut found = Vec::new();
        for segment in shared.snapshot().iter() {
            collect(
                &**segment,
                0,
                context,
                &mut [1 << 20; ORDERS.len()],
                &mut found,
            );
        }
        let mut found: Vec<_> = found.iter().map(|o| (o.next, o.matched)).collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn many_lessons_side_by_side_cost_little_more_than_their_text() {
        let memory = DraftMemory::new(MemoryConfig::default()).unwrap();
        let shared = memory.namespace("a");
        for _ in 0..20 {
            let mut insertions: Vec<_> = (0..16).map(|_| shared.begin()).collect();
            for round in 0..150 {
                for insertion in &mut insertions {
                    insertion.push(&[round, round + 1, round + 2][..=round as usize % 3]);
                }
            }
        }
        let tokens = 20 * 16 * 300;
        assert_eq!(memory.num_tokens(), tokens);
        let segments = shared.snapshot();
        let used = segments
            .iter()
            .map(|segment| segment.capacity() - segment.room());
        let per_token = used.sum::<usize>() as f64 / tokens as f64;
        assert!(per_token < 1.25, "{per_token} cells per token");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn pieces_in_any_order_teach_what_the_whole_documents_would(
            documents in prop::collection::vec(prop::collection::vec(0_u32..6, 2..300), 1..6),
            pieces in prop::collection::vec((0_usize..6, 1_usize..60), 1..80),
        ) {
            let memory = DraftMemory::new(MemoryConfig::default()).unwrap();
            let (whole, cut) = (memory.namespace("whole"), memory.namespace("cut"));
            let mut insertions = Vec::new();
            for document in &documents {
                whole.insert(document);
                insertions.push((cut.begin(), &document[..]));
            }
            for (index, size) in pieces {
                let count = insertions.len();
                let (insertion, rest) = &mut insertions[index % count];
                let (piece, left) = rest.split_at(size.min(rest.len()));
                insertion.push(piece);
                *rest = left;
            }
            for (insertion, rest) in &mut insertions {
                insertion.push(rest);
            }
            for document in &documents {
                for end in 1..document.len() {
                    let context = &document[end.saturating_sub(CONTEXT_TOKENS)..end];
                    prop_assert_eq!(followers(&cut, context), followers(&whole, context));
                }
            }
        }
    }
}
