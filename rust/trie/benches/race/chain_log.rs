//! Candidate (b): a token log with hash chains, walked by the product's own code.

use crate::chains::{Chains, LIMITS, ORDERS, Occurrence, collect, suffix_hashes};
use crate::index::{Counts, Index, levels_of};
use crate::{SEPARATOR, TokenId};

/// Tokens for each bucket at most; a corpus file has two to four.
const TOKENS_PER_BUCKET: usize = 3;
const MIN_BUCKETS: usize = 64;

pub(crate) struct ChainLog {
    /// Occurrences taken of each order.
    limits: [u32; ORDERS.len()],
    again: bool,
    tokens: Vec<TokenId>,
    links: Vec<[u32; ORDERS.len()]>,
    heads: Vec<[u32; ORDERS.len()]>,
}

impl ChainLog {
    /// `more`: factor on the occurrences that the product takes. `again`: whether drafted nodes are
    /// looked up, which finds what only a shorter match holds.
    pub(crate) fn new(more: u32, again: bool) -> Self {
        Self {
            limits: LIMITS.map(|limit| limit * more),
            again,
            tokens: Vec::new(),
            links: Vec::new(),
            heads: vec![[0; ORDERS.len()]; MIN_BUCKETS],
        }
    }

    fn bucket(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.heads.len() as u64) >> 32) as usize
    }

    fn link(&mut self, position: usize) {
        if self.tokens[position] == SEPARATOR {
            return;
        }
        let start = position.saturating_sub(ORDERS[ORDERS.len() - 1]);
        let before = &self.tokens[start..position];
        let document = before.iter().rposition(|&token| token == SEPARATOR);
        let (hashes, count) = suffix_hashes(&before[document.map_or(0, |end| end + 1)..]);
        for (order, &hash) in hashes[..count].iter().enumerate() {
            let bucket = self.bucket(hash);
            self.links[position][order] = self.heads[bucket][order];
            self.heads[bucket][order] = position as u32;
        }
    }
}

impl Chains for ChainLog {
    fn end(&self) -> u32 {
        self.tokens.len() as u32
    }

    fn token(&self, position: u32) -> TokenId {
        self.tokens[position as usize]
    }

    fn head(&self, order: usize, hash: u32) -> u32 {
        self.heads[self.bucket(hash)][order]
    }

    fn previous(&self, order: usize, position: u32) -> u32 {
        self.links[position as usize][order]
    }
}

impl Index for ChainLog {
    type Place = Occurrence;

    fn push(&mut self, token: TokenId) {
        let position = self.tokens.len();
        self.tokens.push(token);
        self.links.push([0; ORDERS.len()]);
        if position < self.heads.len() * TOKENS_PER_BUCKET {
            self.link(position);
            return;
        }
        let buckets = self.heads.len() * 2;
        self.heads.clear();
        self.heads.resize(buckets, [0; ORDERS.len()]);
        for position in 0..self.tokens.len() {
            self.link(position);
        }
    }

    fn own_places(&self, context: &[TokenId], places: &mut Vec<Occurrence>) {
        places.clear();
        collect(self, 0, context, &mut self.limits.clone(), places);
    }

    fn follow(&self, context: &[TokenId], _fresh: usize, places: &mut Vec<Occurrence>) {
        self.own_places(context, places);
    }

    fn count(&self, places: &[Occurrence], weight: f32, counts: &mut Counts) {
        for place in places {
            counts.add(place.next, 0, levels_of(usize::from(place.matched)), weight);
        }
    }

    fn advance(&self, place: Occurrence, token: TokenId) -> Option<Occurrence> {
        let position = place.position + 1;
        let next = *self.tokens.get(position as usize)?;
        (place.next == token && next != SEPARATOR).then_some(Occurrence {
            position,
            next,
            origin: 0,
            matched: place.matched + 1,
        })
    }

    fn first(&self, _token: TokenId) -> Option<Occurrence> {
        None
    }

    fn looks_up_again(&self) -> bool {
        self.again
    }

    fn bytes(&self) -> usize {
        size_of_val(self.tokens.as_slice())
            + size_of_val(self.links.as_slice())
            + size_of_val(self.heads.as_slice())
    }
}
