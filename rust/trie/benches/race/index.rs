//! What the structures have in common: text goes in, counts of continuations come out.

use crate::TokenId;

/// Match lengths, in tokens, that the score distinguishes: those of `src/evidence.rs`.
pub(crate) const LEVELS: [usize; 13] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 40, 64];

/// Number of levels that a match of `matched` tokens reaches.
pub(crate) fn levels_of(matched: usize) -> usize {
    LEVELS.partition_point(|&level| level <= matched)
}

/// An index over a growing text.
pub(crate) trait Index {
    /// A state of the walk through the index.
    type Place: Copy;

    /// Appends a token, or a separator, which ends the document.
    fn push(&mut self, token: TokenId);

    /// Replaces `places` by those of the ends of `context`, which is the end of the index's own
    /// text. What stands at the end of the text is not an occurrence of itself.
    fn own_places(&self, context: &[TokenId], places: &mut Vec<Self::Place>);

    /// Replaces `places` by those of the ends of `context`, another text. They were those of the
    /// same text without its last `fresh` tokens.
    fn follow(&self, context: &[TokenId], fresh: usize, places: &mut Vec<Self::Place>);

    /// Adds how often each token followed at each level, `weight` for each time.
    fn count(&self, places: &[Self::Place], weight: f32, counts: &mut Counts);

    /// The place one token further on, if there is one; `None` of a place that ends there.
    fn advance(&self, place: Self::Place, token: TokenId) -> Option<Self::Place>;

    /// Where the walk of one token stands, for indexes that keep a place for each match length.
    fn first(&self, token: TokenId) -> Option<Self::Place>;

    /// Whether each drafted node is looked up like new text, instead of going on from the places of
    /// its parent.
    fn looks_up_again(&self) -> bool {
        false
    }

    /// Bytes in use; vectors that double count what they hold, hash tables all of their slots.
    fn bytes(&self) -> usize;
}

/// How often tokens followed, by level.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) tokens: Vec<TokenId>,
    /// Of each token.
    pub(crate) by_level: Vec<[f32; LEVELS.len()]>,
    /// Of all tokens, those that were not listed included.
    pub(crate) totals: [f32; LEVELS.len()],
    /// Of each id, the generation it was listed in and its place in the list.
    slots: Vec<(u32, u32)>,
    generation: u32,
}

impl Counts {
    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.tokens.clear();
        self.by_level.clear();
        self.totals = [0.0; LEVELS.len()];
        self.generation += 1;
    }

    /// Adds `weight` to `token` at the levels from `first` up to, but not, `last`.
    pub(crate) fn add(&mut self, token: TokenId, first: usize, last: usize, weight: f32) {
        let id = token as usize;
        if id >= self.slots.len() {
            self.slots.resize(id + 1, (0, 0));
        }
        if self.slots[id].0 != self.generation {
            self.slots[id] = (self.generation, self.tokens.len() as u32);
            self.tokens.push(token);
            self.by_level.push([0.0; LEVELS.len()]);
        }
        let counts = &mut self.by_level[self.slots[id].1 as usize];
        for count in &mut counts[first..last] {
            *count += weight;
        }
        self.add_unlisted(first, last, weight);
    }

    /// Adds `weight` to the totals alone.
    pub(crate) fn add_unlisted(&mut self, first: usize, last: usize, weight: f32) {
        for total in &mut self.totals[first..last] {
            *total += weight;
        }
    }
}
