//! The caller's `prediction`: text that the output is expected to resemble.

use crate::sources::text::Text;
use crate::store::chains::{Chains, Occurrence, collect, context_of};
use crate::{MAX_MATCH, SEPARATOR, TokenId};

/// Tokens after a lost cursor in which even a match of one token is believed.
const NEAR_TOKENS: u32 = 16;
/// Tokens that must match anywhere else.
const FAR_MATCH: u16 = 4;

/// Bins of the run length: tokens followed in a row, or matched when the cursor was found.
const RUNS: [u16; 6] = [0, 1, 2, 4, 8, 16];
/// Hits and trials each bin starts with.
const PRIOR: [(f32, f32); RUNS.len()] = [
    (2.0, 4.0),
    (1.2, 4.0),
    (2.0, 4.0),
    (2.8, 4.0),
    (3.5, 4.0),
    (3.8, 4.0),
];
/// Share of its old evidence that a bin keeps at each trial.
const KEEP: f32 = 0.95;

/// Where the output is in the prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// Index of the predicted token that should come next.
    pub(crate) next: u32,
    /// Tokens before it that the output has followed.
    pub(crate) run: u16,
}

/// A predicted text, the cursor into it, and how far it has been right.
#[derive(Debug)]
pub(crate) struct Prediction {
    text: Text,
    cursor: Option<Cursor>,
    /// Where the cursor was lost.
    lost: u32,
    /// Predicted tokens that were emitted when the cursor was on them.
    accepted: Vec<bool>,
    num_accepted: u32,
    /// Hits and trials by bin of the run length.
    bins: [(f32, f32); RUNS.len()],
    matches: Vec<Occurrence>,
}

impl Default for Prediction {
    fn default() -> Self {
        Self {
            text: Text::default(),
            cursor: None,
            lost: 0,
            accepted: Vec::new(),
            num_accepted: 0,
            bins: PRIOR,
            matches: Vec::new(),
        }
    }
}

fn bin(run: u16) -> usize {
    RUNS.iter().rposition(|&min| min <= run).unwrap_or(0)
}

impl Prediction {
    /// A prediction whose first token should be the output's first, put into an empty `text`.
    pub(crate) fn new(tokens: &[TokenId], mut text: Text) -> Self {
        text.extend(tokens);
        let cursor = (!tokens.is_empty()).then_some(Cursor { next: 0, run: 0 });
        Self {
            text,
            cursor,
            accepted: vec![false; tokens.len()],
            ..Self::default()
        }
    }

    pub(crate) fn text(&self) -> &Text {
        &self.text
    }

    pub(crate) fn cursor(&self) -> Option<Cursor> {
        self.cursor
    }

    pub(crate) fn num_accepted(&self) -> u32 {
        self.num_accepted
    }

    /// The token at a cursor.
    pub(crate) fn token(&self, cursor: Cursor) -> Option<TokenId> {
        let token = *self.text.tokens().get(cursor.next as usize)?;
        (token != SEPARATOR).then_some(token)
    }

    /// The cursor one token further on.
    pub(crate) fn step(cursor: Cursor) -> Cursor {
        Cursor {
            next: cursor.next + 1,
            run: cursor.run.saturating_add(1),
        }
    }

    /// Probability that the token at the cursor comes next, learned from this request.
    pub(crate) fn probability(&self, cursor: Cursor) -> f32 {
        let (hits, trials) = self.bins[bin(cursor.run)];
        hits / trials
    }

    /// Follows one emitted token. A miss is first taken for a replaced token: the cursor skips it
    /// and is looked up again if that was wrong.
    ///
    /// `output` ends with it and is where a lost cursor is looked up.
    pub(crate) fn advance(&mut self, output: &[TokenId]) {
        let Some(&token) = output.last() else { return };
        if self.text.tokens().is_empty() {
            return;
        }
        if let Some(cursor) = self.cursor
            && let Some(expected) = self.token(cursor)
        {
            let hit = expected == token;
            let (hits, trials) = &mut self.bins[bin(cursor.run)];
            *hits = *hits * KEEP + f32::from(u8::from(hit));
            *trials = *trials * KEEP + 1.0;
            if hit {
                let seen = &mut self.accepted[cursor.next as usize];
                self.num_accepted += u32::from(!*seen);
                *seen = true;
                self.cursor = Some(Self::step(cursor));
                return;
            }
            if cursor.run > 0 {
                self.lost = cursor.next;
                let replaced = Cursor {
                    next: cursor.next + 1,
                    run: 0,
                };
                self.cursor = self.resynchronise(output).or(Some(replaced));
                return;
            }
        }
        self.cursor = self.resynchronise(output);
    }

    /// The place in the prediction after the longest match of the output's end: any match soon
    /// after the point of loss, a longer one elsewhere; the nearest among equals.
    fn resynchronise(&mut self, output: &[TokenId]) -> Option<Cursor> {
        let mut matches = std::mem::take(&mut self.matches);
        matches.clear();
        let context = context_of(&output[output.len().saturating_sub(MAX_MATCH)..]);
        // A prediction is the caller's own file: every occurrence is worth a look.
        collect(&self.text, 0, context, &mut [64; 4], &mut matches);
        self.near_matches(context, &mut matches);
        let lost = self.lost;
        let near =
            |occurrence: &Occurrence| (lost..=lost + NEAR_TOKENS).contains(&occurrence.position);
        let best = matches
            .iter()
            .filter(|occurrence| occurrence.matched >= FAR_MATCH || near(occurrence))
            .max_by_key(|occurrence| {
                let distance = occurrence.position.abs_diff(lost);
                (
                    occurrence.matched,
                    near(occurrence),
                    std::cmp::Reverse(distance),
                )
            })
            .map(|occurrence| Cursor {
                next: occurrence.position,
                run: occurrence.matched,
            });
        self.matches = matches;
        best
    }

    /// Adds the matches of the last token that are near, which the bounded walk may have missed.
    fn near_matches(&self, context: &[TokenId], matches: &mut Vec<Occurrence>) {
        let Some(&last) = context.last() else { return };
        let end = self.text.end();
        for position in self.lost.max(1)..=(self.lost + NEAR_TOKENS).min(end.saturating_sub(1)) {
            if self.text.token(position - 1) != last {
                continue;
            }
            let matched = context
                .iter()
                .rev()
                .zip((0..position).rev())
                .take_while(|&(&token, before)| self.text.token(before) == token)
                .count() as u16;
            let next = self.text.token(position);
            matches.push(Occurrence {
                position,
                next,
                origin: 0,
                matched,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow(predicted: &[TokenId], output: &[TokenId]) -> Prediction {
        let mut prediction = Prediction::new(predicted, Text::default());
        for end in 1..=output.len() {
            prediction.advance(&output[..end]);
        }
        prediction
    }

    fn numbers(range: std::ops::Range<TokenId>) -> Vec<TokenId> {
        range.collect()
    }

    #[test]
    fn a_followed_prediction_is_counted_whole() {
        let text = numbers(0..50);
        let prediction = follow(&text, &text);
        assert_eq!(prediction.num_accepted(), 50);
        assert!(prediction.probability(Cursor { next: 0, run: 20 }) > 0.95);
    }

    #[test]
    fn the_cursor_returns_after_a_replaced_token() {
        let text = numbers(0..50);
        let mut output = text.clone();
        output[20] = 999;
        let prediction = follow(&text, &output[..22]);
        assert_eq!(prediction.cursor(), Some(Cursor { next: 22, run: 1 }));
        assert_eq!(follow(&text, &output).num_accepted(), 49);
    }

    #[test]
    fn the_cursor_returns_after_an_insertion_and_after_a_deletion() {
        let text = numbers(0..100);
        let mut inserted = text.clone();
        inserted.splice(30..30, 500..540);
        assert_eq!(follow(&text, &inserted).num_accepted(), 99);
        let mut deleted = text.clone();
        deleted.drain(30..60);
        // A jump beyond the near window needs four matching tokens.
        assert_eq!(follow(&text, &deleted).num_accepted(), 66);
    }

    #[test]
    fn a_token_is_counted_once_even_if_the_text_is_repeated() {
        let text = numbers(0..10);
        let twice = [text.clone(), text.clone()].concat();
        assert_eq!(follow(&text, &twice).num_accepted(), 10);
    }

    #[test]
    fn a_lost_cursor_prefers_the_longer_and_then_the_nearer_match() {
        // `7 8` comes three times: before the loss, soon after it, and later.
        let predicted = [7, 8, 1, 50, 51, 52, 7, 8, 2, 60, 61, 7, 8, 3];
        let near = follow(&predicted, &[7, 8, 1, 50, 51, 99, 7, 8]);
        assert_eq!(near.cursor().map(|cursor| cursor.next), Some(8));
        // `44` comes soon after the loss, and forty tokens later after three more that match.
        let far = [numbers(0..8), vec![44], numbers(100..140), numbers(41..46)].concat();
        let longer = follow(&far, &[0, 1, 2, 99, 41, 42, 43, 44]);
        assert_eq!(longer.cursor().map(|cursor| cursor.next), Some(53));
    }

    #[test]
    fn misses_lower_the_probability() {
        let predicted = numbers(0..100);
        let mut prediction = Prediction::new(&predicted, Text::default());
        let start = Cursor { next: 0, run: 0 };
        let before = prediction.probability(start);
        prediction.advance(&[999]);
        assert!(prediction.probability(start) < before);
        assert_eq!(prediction.cursor(), None);
    }

    #[test]
    fn an_empty_prediction_does_nothing() {
        let prediction = follow(&[], &[1, 2, 3]);
        assert_eq!((prediction.cursor(), prediction.num_accepted()), (None, 0));
    }
}
