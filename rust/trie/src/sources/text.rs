//! Text that one request owns: its prompt and output, or its prediction.

use std::sync::Arc;

use crate::TokenId;
use crate::sources::text_index::{CHUNK_ROWS, MIN_ROWS, ROW_BYTES, TextIndex};
use crate::store::chains::Chains;
use crate::store::grant::{Grant, Room, Unbounded};

/// The index grows by one part in this many of its rows.
const GROWTH_PARTS: usize = 4;

/// Older positions that a push takes back into an index that has room again.
const TAKEN_BACK: usize = 4;

/// A growing token log with hash chains, for a single writer. A pushed token costs constant time.
///
/// The index has its bytes from a room. Where that has no more, the oldest text is not indexed.
#[derive(Debug)]
pub(crate) struct Text {
    tokens: Vec<TokenId>,
    index: TextIndex,
    room: Arc<dyn Room>,
    /// Of the bytes of the index.
    grants: Vec<Grant>,
    /// Length of the text at which an index that was refused is asked for again.
    ask_at: usize,
}

impl Default for Text {
    fn default() -> Self {
        Self::within(Arc::new(Unbounded))
    }
}

impl Text {
    /// A text without tokens, whose index has its bytes from `room`.
    pub(crate) fn within(room: Arc<dyn Room>) -> Self {
        Self {
            tokens: Vec::new(),
            index: TextIndex::default(),
            room,
            grants: Vec::new(),
            ask_at: 0,
        }
    }

    /// Every token pushed so far.
    pub(crate) fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }

    /// Appends one token and links it to earlier text with the same context.
    pub(crate) fn push(&mut self, token: TokenId) {
        self.tokens.push(token);
        if self.index.is_full() {
            self.make_room();
        }
        self.index.push(&self.tokens);
        let mut left = TAKEN_BACK;
        while left > 0 && self.index.take_older(&self.tokens) {
            left -= 1;
        }
    }

    /// Appends tokens in order.
    pub(crate) fn extend(&mut self, tokens: &[TokenId]) {
        self.reserve(tokens.len());
        for &token in tokens {
            self.push(token);
        }
    }

    /// Makes room for so many tokens more at once, if there is any.
    pub(crate) fn reserve(&mut self, tokens: usize) {
        self.tokens.reserve(tokens);
        let rows = self.tokens.len() + tokens;
        let has = self.index.max_rows();
        let may_ask = self.tokens.len() >= self.ask_at;
        if may_ask && rows > has.max(MIN_ROWS) && self.grow(rows.max(has + has / GROWTH_PARTS)) {
            self.index.spread();
        }
    }

    /// Makes room for another position in a full index, if it has any rows at all.
    fn make_room(&mut self) {
        let has = self.index.max_rows();
        if self.tokens.len() >= self.ask_at {
            // One that lacks older text grows faster, to take it back.
            let is_whole = self.index.first() == 0;
            let parts = if is_whole { GROWTH_PARTS } else { 1 };
            if self.grow(has + has / parts) {
                return;
            }
            self.ask_at = self.tokens.len() + (has / GROWTH_PARTS).max(CHUNK_ROWS);
        }
        self.index.drop_oldest();
    }

    /// Asks for `rows` of the index, or a few more, and says whether there was room for them.
    fn grow(&mut self, rows: usize) -> bool {
        let has = self.index.max_rows();
        let rows = rows.max(has + 1).max(MIN_ROWS).next_multiple_of(CHUNK_ROWS);
        let Some(grant) = self.room.ask((rows - has) * ROW_BYTES) else {
            return false;
        };
        self.grants.push(grant);
        self.index.allow(rows);
        true
    }
}

impl Chains for Text {
    fn end(&self) -> u32 {
        self.tokens.len() as u32
    }

    fn token(&self, position: u32) -> TokenId {
        self.tokens[position as usize]
    }

    fn head(&self, order: usize, hash: u32) -> u32 {
        self.index.head(order, hash)
    }

    fn previous(&self, order: usize, position: u32) -> u32 {
        self.index.previous(order, position)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;

    use proptest::prelude::*;

    use super::*;
    use crate::SEPARATOR;
    use crate::store::buckets::NEW;
    use crate::store::chains::{LIMITS, ORDERS, Occurrence, collect, context_of};

    fn occurrences(text: &Text) -> Vec<Occurrence> {
        let mut found = Vec::new();
        collect(
            text,
            0,
            context_of(text.tokens()),
            &mut LIMITS.clone(),
            &mut found,
        );
        found
    }

    #[test]
    fn earlier_text_with_the_same_ending_is_found_with_its_match_length() {
        let mut text = Text::default();
        text.extend(&[5, 1, 2, 3, 6, 2, 3, 7, 5, 1, 2, 3]);
        let found: Vec<_> = occurrences(&text)
            .iter()
            .map(|o| (o.position, o.next, o.matched))
            .collect();
        assert_eq!(found, [(4, 6, 4), (7, 7, 2)]);
    }

    #[test]
    fn the_current_ending_is_not_its_own_match() {
        let mut text = Text::default();
        text.extend(&[1, 2, 3]);
        assert_eq!(occurrences(&text), []);
    }

    #[test]
    fn matches_do_not_cross_a_separator() {
        let mut text = Text::default();
        text.extend(&[1, 2, SEPARATOR, 3, 9, 2, SEPARATOR, 1, 2]);
        assert_eq!(occurrences(&text), []);
    }

    #[test]
    fn occurrences_survive_growth_of_the_table() {
        let mut text = Text::default();
        text.extend(&[1, 2, 3, 4]);
        text.extend(&(100..5_000).collect::<Vec<_>>());
        text.extend(&[1, 2, 3]);
        let found: Vec<_> = occurrences(&text)
            .iter()
            .map(|o| (o.next, o.matched))
            .collect();
        assert_eq!(found, [(4, 3)]);
    }

    /// Room for so many bytes.
    #[derive(Debug)]
    struct Bounded(AtomicUsize);

    impl Room for Bounded {
        fn ask(&self, bytes: usize) -> Option<Grant> {
            let left = self.0.load(Relaxed).checked_sub(bytes)?;
            self.0.store(left, Relaxed);
            Some(Grant::unbounded(bytes))
        }
    }

    fn bounded(rows: usize) -> Text {
        Text::within(Arc::new(Bounded(AtomicUsize::new(rows * ROW_BYTES))))
    }

    fn is_found(text: &Text, position: u32) -> bool {
        let mut found = Vec::new();
        let context = &text.tokens()[position as usize - 8..position as usize];
        collect(text, 0, context, &mut LIMITS.clone(), &mut found);
        found
            .iter()
            .any(|occurrence| occurrence.position == position)
    }

    #[test]
    fn without_room_the_oldest_text_is_not_indexed() {
        let mut text = bounded(1024);
        text.extend(&(0..10_000).collect::<Vec<_>>());
        let rows = text.index.max_rows() as u32;
        assert_eq!((text.tokens().len(), rows), (10_000, 960));
        let newest = 10_000 - rows + CHUNK_ROWS as u32;
        assert!((newest..10_000).all(|position| is_found(&text, position)));
        assert!((8..9_000).all(|position| !is_found(&text, position)));
        assert!(text.index.bytes() <= 960 * ROW_BYTES);
    }

    #[test]
    fn text_without_any_room_is_kept_and_not_indexed() {
        let mut text = bounded(0);
        text.extend(&[1, 2, 3, 1, 2]);
        assert_eq!(text.tokens(), [1, 2, 3, 1, 2]);
        assert_eq!(occurrences(&text), []);
    }

    #[test]
    fn an_index_that_gets_room_later_takes_older_text_back() {
        let room = Arc::new(Bounded(AtomicUsize::new(128 * ROW_BYTES)));
        let mut text = Text::within(Arc::clone(&room) as Arc<dyn Room>);
        // Twice: what leads to text that is not indexed leads there again.
        let mut push = |end: u32, more: usize| {
            room.0.store(more * ROW_BYTES, Relaxed);
            let mut oldest = text.index.first();
            for token in text.tokens().len() as u32..end {
                text.push(token);
                let first = text.index.first();
                let oldest_found = first.max(8) as u32;
                assert!(token < 8 || first > token as usize || is_found(&text, oldest_found));
                oldest = oldest.min(first);
            }
            (oldest, text.index.first())
        };
        assert_eq!(push(1_000, 128), (0, 896));
        let (oldest, newest) = push(3_000, 512);
        assert!(oldest < 896 && newest > 2_400, "{oldest} {newest}");
        assert_eq!(push(8_000, 1 << 14), (0, 0));
        assert!((8..8_000).all(|position| is_found(&text, position)));
    }

    #[test]
    fn an_index_without_room_is_asked_for_again() {
        let room = Arc::new(Bounded(AtomicUsize::new(0)));
        let mut text = Text::within(Arc::clone(&room) as Arc<dyn Room>);
        (0..100).for_each(|token| text.push(token));
        assert_eq!(text.index.max_rows(), 0);
        room.0.store(usize::MAX, Relaxed);
        (100..200).for_each(|token| text.push(token));
        assert!((150..200).all(|position| is_found(&text, position)));
    }

    #[test]
    fn an_index_grows_by_a_few_rows_with_each_token() {
        let mut text = Text::default();
        text.push(7);
        for token in 0..20_000_u32 {
            let before = (text.index.size(), text.index.bytes());
            // One context is very common.
            text.push(if token % 3 == 0 { 7 } else { token });
            assert!(text.index.size() - before.0 <= NEW);
            assert!(text.index.bytes() - before.1 <= CHUNK_ROWS * ROW_BYTES);
        }
        assert!(text.index.size() >= 20_000);
        assert!(text.index.bytes() <= 20_000 * ROW_BYTES * 5 / 4 + ROW_BYTES * 128);
        let found = (8..20_000).filter(|position| position % 3 == 0);
        assert!(found.clone().count() > 6_000);
        assert!(found.into_iter().all(|position| is_found(&text, position)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn all_of_the_newest_text_is_found_and_nothing_else(
            tokens in prop::collection::vec(0_u32..60, 1..2_000),
            rows in 0_usize..4_000,
            context in prop::collection::vec(0_u32..60, 1..4),
        ) {
            let mut text = bounded(rows);
            tokens.chunks(7).for_each(|part| text.extend(part));
            let mut found = Vec::new();
            let mut limits = [1 << 20; ORDERS.len()];
            collect(&text, 0, &context, &mut limits, &mut found);
            let mut found: Vec<_> = found.iter().map(|o| (o.position, o.matched)).collect();
            found.sort_unstable();
            let first = text.index.first();
            let expected: Vec<_> = (first.max(1)..tokens.len()).filter_map(|position| {
                let before = tokens[..position].iter().rev();
                let same = before.zip(context.iter().rev()).take_while(|(a, b)| a == b);
                let matched = same.count() as u16;
                (matched > 0).then_some((position as u32, matched))
            }).collect();
            prop_assert_eq!(found, expected);
            prop_assert!(text.index.bytes() <= rows * ROW_BYTES);
            prop_assert!(tokens.len() - first <= rows);
        }
    }
}
