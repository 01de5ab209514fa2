//! The open document of a running request.

use std::sync::Arc;

use crate::TokenId;
use crate::namespaces::document::{Document, MIN_EXTENT_TOKENS};
use crate::namespaces::shared_trie::SharedTrie;
use crate::store::extent::InsertedRange;

/// An open document of one running request. Other requests of the namespace can draft each token
/// as soon as it is pushed.
///
/// Created by [`SharedTrie::begin`]; dropping it ends the document. After the namespace is
/// forgotten, it inserts nothing.
#[derive(Debug)]
pub struct Insertion {
    shared: Arc<SharedTrie>,
    document: Document,
}

impl SharedTrie {
    /// Opens a document for the text of a running request.
    pub fn begin(self: &Arc<Self>) -> Insertion {
        Insertion {
            shared: Arc::clone(self),
            document: Document::new(MIN_EXTENT_TOKENS),
        }
    }
}

impl Insertion {
    /// Returns the ranges that were written, which the request's own drafter has to exclude.
    pub fn ranges(&self) -> &[InsertedRange] {
        self.document.ranges()
    }

    /// Appends tokens to the document, in order; [`crate::SEPARATOR`] ends it and opens another. Takes
    /// constant time per token; other writers of the namespace wait, readers do not.
    pub fn push(&mut self, tokens: &[TokenId]) {
        self.shared.append(&mut self.document, tokens);
    }
}

impl Drop for Insertion {
    fn drop(&mut self) {
        self.shared.finish(&mut self.document);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespaces::document::CONTEXT_TOKENS;
    use crate::store::chains::{ORDERS, collect};
    use crate::{DraftMemory, MemoryConfig};
    use proptest::prelude::*;

    /// What follows `context` and how much of it matched, in no order.
    fn followers(shared: &SharedTrie, context: &[TokenId]) -> Vec<(TokenId, u16)> {
        let mut found = Vec::new();
        let limits = &mut [1 << 20; ORDERS.len()];
        collect(&*shared.view(), 0, context, limits, &mut found);
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
        let view = shared.view();
        let blocks = view.blocks().iter();
        let used = blocks.map(|block| block.capacity() - block.room());
        let per_token = used.sum::<usize>() as f64 / tokens as f64;
        assert!(per_token < 1.25, "{per_token} cells per token");
    }

    #[test]
    fn many_lessons_in_a_small_share_leave_room_for_text() {
        let config = MemoryConfig {
            capacity_bytes: 16 << 20,
            max_namespaces: 64,
        };
        let memory = DraftMemory::new(config).unwrap();
        for number in 0..60 {
            let text: Vec<_> = (0..20_000).map(|i| number * 20_000 + i).collect();
            memory.namespace(&format!("n{number}")).insert(&text);
        }
        let shared = memory.namespace("n0");
        let mut lessons: Vec<_> = (0..32).map(|_| shared.begin()).collect();
        for token in 0..240 {
            for lesson in &mut lessons {
                lesson.push(&[token]);
            }
        }
        // Its share holds about as many.
        let (kept, taught) = (shared.info().num_tokens, 32 * 240);
        assert!(kept * 10 > taught * 9, "{kept} of {taught}");
    }

    #[test]
    fn late_text_is_found_by_contexts_that_newer_text_has_not_crowded() {
        let memory = DraftMemory::new(MemoryConfig::default()).unwrap();
        let shared = memory.namespace("a");
        let mut late = shared.begin();
        late.push(&[7, 8]);
        // Newer blocks, in which 9 is common.
        for number in 0..40 {
            let text = (0..100).map(|i| {
                if i % 2 == 0 {
                    9
                } else {
                    1000 + number * 100 + i
                }
            });
            shared.insert(&text.collect::<Vec<_>>());
        }
        assert!(shared.info().num_blocks > 1);
        late.push(&[9, 10]);
        assert_eq!(followers(&shared, &[7, 8]), [(9, 2)]);
        assert!(followers(&shared, &[8, 9]).contains(&(10, 2)));
        let crowded = followers(&shared, &[6, 9]);
        assert!(crowded.len() > 64 && !crowded.contains(&(10, 1)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn pieces_in_any_order_teach_what_the_whole_documents_would(
            documents in prop::collection::vec(prop::collection::vec(0_u32..60, 2..300), 1..6),
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
