//! Text that one request owns: its prompt and output, or its prediction.

use std::sync::Arc;

use crate::store::chains::{Chains, ORDERS, bucket, suffix_hashes};
use crate::store::grant::{Grant, Room, Unbounded};
use crate::{SEPARATOR, TokenId};

/// Positions that the smallest index has room for; larger ones double.
const MIN_ROWS: usize = 64;

/// Bytes of the index for one position: its links, and a bucket of heads.
const ROW_BYTES: usize = 2 * size_of::<[u32; ORDERS.len()]>();

/// Where there is no room for a larger index, one part in this many of the text in it, the oldest,
/// makes room for new text.
const PARTS: usize = 4;

/// A growing token log with hash chains, for a single writer. A pushed token costs amortised
/// constant time.
///
/// The index has its bytes from a room. Where that has no more, the oldest text is not indexed.
#[derive(Debug)]
pub(crate) struct Text {
    tokens: Vec<TokenId>,
    /// The oldest position in the index, or the end of the text.
    first: usize,
    /// Per position from `first` on, the previous continuation of each order; 0 = none.
    links: Vec<[u32; ORDERS.len()]>,
    /// Per bucket, the newest continuation of each order; as many as there may be links.
    heads: Vec<[u32; ORDERS.len()]>,
    room: Arc<dyn Room>,
    /// Of the bytes of links and heads.
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
            first: 0,
            links: Vec::new(),
            heads: Vec::new(),
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
        let position = self.tokens.len();
        self.tokens.push(token);
        if self.links.len() == self.heads.len() {
            self.make_room(position);
        }
        if self.heads.is_empty() {
            self.first = self.tokens.len();
        } else {
            self.link(position);
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
        let rows = (self.tokens.len() + tokens).next_power_of_two();
        if rows > self.heads.len().max(MIN_ROWS) {
            self.grow(rows);
        }
    }

    /// A position if it is in the index, else 0.
    fn indexed(&self, position: u32) -> u32 {
        if (position as usize) < self.first {
            0
        } else {
            position
        }
    }

    /// Links the position after the last one that was.
    fn link(&mut self, position: usize) {
        self.links.push([0; ORDERS.len()]);
        if self.tokens[position] == SEPARATOR {
            return;
        }
        let (hashes, count) = suffix_hashes(&self.tokens[..position]);
        for (order, &hash) in hashes[..count].iter().enumerate() {
            let bucket = bucket(hash, self.heads.len());
            self.links[position - self.first][order] = self.heads[bucket][order];
            self.heads[bucket][order] = position as u32;
        }
    }

    /// Makes room for the links of `position` in a full index, as far as can be.
    fn make_room(&mut self, position: usize) {
        let rows = self.heads.len();
        if position < self.ask_at || self.grow((rows * 2).max(MIN_ROWS)) {
            return;
        }
        if rows == 0 {
            self.ask_at = position + MIN_ROWS;
        } else {
            let oldest = rows / PARTS;
            self.links.drain(..oldest);
            self.first += oldest;
        }
    }

    /// Gives the index `rows`, three quarters of them for the text there is, and says whether
    /// there was room for them. The last token need not be linked yet.
    fn grow(&mut self, rows: usize) -> bool {
        let Some(grant) = self.room.ask((rows - self.heads.len()) * ROW_BYTES) else {
            return false;
        };
        self.grants.push(grant);
        let linked = self.first + self.links.len();
        self.first = linked.saturating_sub(rows - rows / PARTS);
        self.links = Vec::new();
        self.links.reserve_exact(rows);
        self.heads = Vec::new();
        self.heads = vec![[0; ORDERS.len()]; rows];
        for position in self.first..linked {
            self.link(position);
        }
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
        if self.heads.is_empty() {
            return 0;
        }
        self.indexed(self.heads[bucket(hash, self.heads.len())][order])
    }

    fn previous(&self, order: usize, position: u32) -> u32 {
        let index = (position as usize).checked_sub(self.first);
        let links = index.and_then(|index| self.links.get(index));
        links.map_or(0, |links| self.indexed(links[order]))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::store::chains::{LIMITS, Occurrence, collect, context_of};

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
        assert_eq!((text.tokens().len(), text.heads.len()), (10_000, 1024));
        let newest = 10_000 - 1024 * 3 / 4;
        assert!((newest..10_000).all(|position| is_found(&text, position)));
        assert!((8..8_000).all(|position| !is_found(&text, position)));
        assert!(text.links.capacity() <= 1024);
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
        let room = Arc::new(Bounded(AtomicUsize::new(64 * ROW_BYTES)));
        let mut text = Text::within(Arc::clone(&room) as Arc<dyn Room>);
        text.extend(&(0..1_000).collect::<Vec<_>>());
        assert!(!is_found(&text, 900));
        room.0.store(usize::MAX, Relaxed);
        text.extend(&(1_000..1_100).collect::<Vec<_>>());
        assert!((8..1_100).all(|position| is_found(&text, position)));
    }

    #[test]
    fn an_index_without_room_is_asked_for_again() {
        let room = Arc::new(Bounded(AtomicUsize::new(0)));
        let mut text = Text::within(Arc::clone(&room) as Arc<dyn Room>);
        (0..100).for_each(|token| text.push(token));
        assert!(text.heads.is_empty());
        room.0.store(usize::MAX, Relaxed);
        (100..200).for_each(|token| text.push(token));
        assert!((150..200).all(|position| is_found(&text, position)));
    }
}
