//! Text that one request owns: its prompt and output, or its prediction.

use crate::store::chains::{Chains, ORDERS, bucket, suffix_hashes};
use crate::{SEPARATOR, TokenId};

/// Heads of the smallest table; tables grow with the text.
const MIN_HEADS: usize = 64;

/// A growing token log with hash chains, for a single writer. A pushed token costs amortised
/// constant time.
#[derive(Debug, Default)]
pub(crate) struct Text {
    tokens: Vec<TokenId>,
    /// Per position, the previous continuation of each order; 0 = none.
    links: Vec<[u32; ORDERS.len()]>,
    /// Per bucket, the newest continuation of each order; a power of two, or empty.
    heads: Vec<[u32; ORDERS.len()]>,
}

impl Text {
    /// Every token pushed so far.
    pub(crate) fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }

    /// Appends one token and links it to earlier text with the same context.
    pub(crate) fn push(&mut self, token: TokenId) {
        let position = self.tokens.len();
        self.tokens.push(token);
        self.links.push([0; ORDERS.len()]);
        if position + 1 > self.heads.len() {
            self.grow();
        } else {
            self.link(position);
        }
    }

    /// Appends tokens in order.
    pub(crate) fn extend(&mut self, tokens: &[TokenId]) {
        self.tokens.reserve(tokens.len());
        self.links.reserve(tokens.len());
        for &token in tokens {
            self.push(token);
        }
    }

    fn link(&mut self, position: usize) {
        if self.tokens[position] == SEPARATOR {
            return;
        }
        let (hashes, count) = suffix_hashes(&self.tokens[..position]);
        for (order, &hash) in hashes[..count].iter().enumerate() {
            let bucket = bucket(hash, self.heads.len());
            self.links[position][order] = self.heads[bucket][order];
            self.heads[bucket][order] = position as u32;
        }
    }

    /// Doubles the table and links every position again.
    fn grow(&mut self) {
        let buckets = (self.tokens.len() * 2).next_power_of_two().max(MIN_HEADS);
        self.heads.clear();
        self.heads.resize(buckets, [0; ORDERS.len()]);
        for position in 0..self.tokens.len() {
            self.link(position);
        }
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
            0
        } else {
            self.heads[bucket(hash, self.heads.len())][order]
        }
    }

    fn previous(&self, order: usize, position: u32) -> u32 {
        self.links[position as usize][order]
    }
}

#[cfg(test)]
mod tests {
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
}
