//! How the time of a draft grows with the text of a namespace, by how its index is cut up.
//!
//! The text is made up from a fixed seed: documents of 1,000 tokens, half of them runs copied from
//! earlier text, the others drawn from 50,000 ids by Zipf's law. Drafts are for new documents of
//! the same kind, and read nothing but the namespace.

use std::time::Instant;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::chains::{Chains, ORDERS, Occurrence, collect, suffix_hashes};
use crate::draft::{Drafts, Tuning};
use crate::index::{Counts, Index, levels_of};
use crate::{MAX_MATCH, SEPARATOR, TokenId};

const DOCUMENT_TOKENS: usize = 1000;
const NUM_IDS: f64 = 50_000.0;
/// Earlier text that runs are copied from.
const EARLIER_TOKENS: usize = 1 << 20;
/// Tokens of a segment in the list that the server had, and of the smallest merged one.
const SEGMENT_TOKENS: usize = 1 << 20;
const NUM_MERGED: u32 = 12;
const MAX_NODES: usize = 16;
const NUM_DRAFTS: usize = 4000;
/// Occurrences taken of each order from shared text.
const SHARED_LIMITS: [u32; ORDERS.len()] = [24, 64, 32, 16];
/// Heads per token, as right shifts, and the most of a single token.
const HEAD_SHIFTS: [u32; ORDERS.len()] = [2, 1, 1, 1];

/// Documents of made-up text.
struct Text {
    random: StdRng,
    earlier: Vec<TokenId>,
}

impl Text {
    fn document(&mut self) -> Vec<TokenId> {
        let mut tokens = Vec::with_capacity(DOCUMENT_TOKENS + 32);
        while tokens.len() < DOCUMENT_TOKENS {
            let run = self.random.random_range(4..32);
            if self.earlier.len() > run && self.random.random_bool(0.5) {
                let start = self.random.random_range(0..self.earlier.len() - run);
                tokens.extend_from_slice(&self.earlier[start..start + run]);
            } else {
                let ids = (0..run).map(|_| NUM_IDS.powf(self.random.random::<f64>()) as TokenId);
                tokens.extend(ids);
            }
        }
        tokens.truncate(DOCUMENT_TOKENS);
        if self.earlier.len() < EARLIER_TOKENS {
            self.earlier.extend_from_slice(&tokens);
        }
        tokens
    }
}

/// A piece of text with an index of its own.
struct Part {
    capacity: usize,
    tokens: Vec<TokenId>,
    links: Vec<[u32; ORDERS.len()]>,
    heads: [Vec<u32>; ORDERS.len()],
}

impl Part {
    fn new(capacity: usize) -> Self {
        Self {
            capacity,
            tokens: Vec::with_capacity(capacity),
            links: Vec::with_capacity(capacity),
            heads: HEAD_SHIFTS.map(|shift| vec![0; (capacity >> shift).max(1)]),
        }
    }

    fn bucket(&self, order: usize, hash: u32) -> usize {
        ((u64::from(hash) * self.heads[order].len() as u64) >> 32) as usize
    }

    fn push(&mut self, token: TokenId) {
        let position = self.tokens.len();
        self.tokens.push(token);
        let mut links = [0; ORDERS.len()];
        if token != SEPARATOR {
            let before = &self.tokens[position.saturating_sub(ORDERS[ORDERS.len() - 1])..position];
            let document = before.iter().rposition(|&token| token == SEPARATOR);
            let (hashes, count) = suffix_hashes(&before[document.map_or(0, |end| end + 1)..]);
            for (order, &hash) in hashes[..count].iter().enumerate() {
                let bucket = self.bucket(order, hash);
                links[order] = self.heads[order][bucket];
                self.heads[order][bucket] = position as u32;
            }
        }
        self.links.push(links);
    }
}

impl Chains for Part {
    fn end(&self) -> u32 {
        self.tokens.len() as u32
    }

    fn token(&self, position: u32) -> TokenId {
        self.tokens[position as usize]
    }

    fn head(&self, order: usize, hash: u32) -> u32 {
        self.heads[order][self.bucket(order, hash)]
    }

    fn previous(&self, order: usize, position: u32) -> u32 {
        self.links[position as usize][order]
    }
}

/// The parts of a namespace, oldest first.
struct Parts(Vec<Part>);

impl Index for Parts {
    type Place = Occurrence;

    fn push(&mut self, token: TokenId) {
        let free = self
            .0
            .iter_mut()
            .find(|part| part.tokens.len() < part.capacity);
        if let Some(part) = free {
            part.push(token);
        }
    }

    fn own_places(&self, context: &[TokenId], places: &mut Vec<Occurrence>) {
        places.clear();
        let mut limits = SHARED_LIMITS;
        for (index, part) in self.0.iter().enumerate().rev() {
            collect(part, index as u16, context, &mut limits, places);
        }
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
        let next = *self.0[usize::from(place.origin)]
            .tokens
            .get(position as usize)?;
        (place.next == token && next != SEPARATOR).then_some(Occurrence {
            position,
            next,
            matched: (place.matched + 1).min(MAX_MATCH as u16),
            ..place
        })
    }

    fn first(&self, _token: TokenId) -> Option<Occurrence> {
        None
    }

    fn bytes(&self) -> usize {
        0
    }
}

/// Tokens of each part, oldest first, that `tokens` are cut into.
type Cut = fn(usize) -> Vec<usize>;

const CUTS: [(&str, Cut); 3] = [
    ("segments", |tokens| {
        vec![SEGMENT_TOKENS.min(tokens); tokens.div_ceil(SEGMENT_TOKENS)]
    }),
    ("merged", |tokens| {
        let sizes = (1..=NUM_MERGED).map(|part| tokens >> part);
        sizes.chain([tokens >> NUM_MERGED]).collect()
    }),
    ("one index", |tokens| vec![tokens]),
];

/// Prints the microseconds of a draft for each of `sizes`, in tokens.
pub(crate) fn race(sizes: &[usize], tuning: Tuning) {
    println!("    tokens index      parts   draft us p50    p99   occurrences");
    for &tokens in sizes {
        for (name, cut) in CUTS {
            let mut text = Text {
                random: StdRng::seed_from_u64(1),
                earlier: Vec::new(),
            };
            let mut parts = Parts(cut(tokens).into_iter().map(Part::new).collect());
            for _ in 0..tokens / (DOCUMENT_TOKENS + 1) {
                for &token in text.document().iter().chain(&[SEPARATOR]) {
                    parts.push(token);
                }
            }
            let mut drafts = Drafts::new(tuning);
            let mut times = Vec::with_capacity(NUM_DRAFTS);
            let mut occurrences = 0;
            let mut document = Vec::new();
            for draft in 0..NUM_DRAFTS {
                let at = 64 + draft % 100 * 9;
                if draft % 100 == 0 {
                    document = text.document();
                }
                let context = &document[at - MAX_MATCH..at];
                let start = Instant::now();
                parts.own_places(context, &mut drafts.places[1]);
                occurrences += drafts.places[1].len();
                drafts.draft(context, [None, Some(&parts)], MAX_NODES);
                times.push(start.elapsed().as_secs_f64() * 1e6);
            }
            times.sort_by(f64::total_cmp);
            println!(
                "{tokens:10} {name:10} {:5} {:14.1} {:6.1} {:13.1}",
                parts.0.len(),
                times[times.len() / 2],
                times[times.len() * 99 / 100],
                occurrences as f64 / times.len() as f64
            );
        }
    }
}
