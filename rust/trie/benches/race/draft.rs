//! The score and the tree, the same for every structure: the blend of `src/score/scorer.rs` without the
//! mixer, and the search of `src/draft/best_first.rs`.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::ops::Range;

use crate::TokenId;
use crate::chains::context_of;
use crate::index::{Counts, Index, LEVELS};

/// Escape of each level: `src/score.rs`.
const ESCAPES: [f32; LEVELS.len()] = [
    60.0, 24.5, 14.6, 10.1, 7.5, 6.0, 4.1, 3.1, 2.4, 1.7, 1.0, 0.5, 0.3,
];
const LEAST_VALUE: f32 = 1e-4;
const HOPE: f32 = 0.4;
const ROOT: usize = 0;

/// What is tuned for each structure.
#[derive(Clone, Copy)]
pub(crate) struct Tuning {
    /// Weight of a count in the request's own text; one in the corpus weighs 1.
    pub(crate) own: f32,
    /// Factor on the escapes.
    pub(crate) escape: f32,
}

/// Best for every structure where there is own text alone.
pub(crate) const ALONE: Tuning = Tuning {
    own: 3.0,
    escape: 1.0,
};

struct Node {
    token: TokenId,
    parent: usize,
    value: f32,
    /// Its places in own text and in the corpus.
    places: [Range<usize>; 2],
}

/// A token that may be taken, or a taken node, without a token, that may be scored.
#[derive(Clone, Copy)]
struct Open {
    value: f32,
    parent: usize,
    token: Option<TokenId>,
}

impl Ord for Open {
    fn cmp(&self, other: &Self) -> Ordering {
        self.value
            .total_cmp(&other.value)
            .then_with(|| other.parent.cmp(&self.parent))
            .then_with(|| other.token.cmp(&self.token))
    }
}

impl PartialOrd for Open {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Open {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Open {}

/// Draft trees, one after the other.
pub(crate) struct Drafts<I: Index> {
    tuning: Tuning,
    nodes: Vec<Node>,
    /// Places in own text and in the corpus; before a draft, those of the root.
    pub(crate) places: [Vec<I::Place>; 2],
    open: BinaryHeap<Open>,
    counts: Counts,
    values: Vec<f32>,
    /// The end of the text, `context` tokens, and the way to a node.
    path: Vec<TokenId>,
    context: usize,
    found: Vec<I::Place>,
}

impl<I: Index> Drafts<I> {
    pub(crate) fn new(tuning: Tuning) -> Self {
        Self {
            tuning,
            nodes: Vec::new(),
            places: [Vec::new(), Vec::new()],
            open: BinaryHeap::new(),
            counts: Counts::default(),
            values: Vec::new(),
            path: Vec::new(),
            context: 0,
            found: Vec::new(),
        }
    }

    /// Takes the `max_nodes` likeliest paths after `context`; `sources` are own text and the corpus.
    pub(crate) fn draft(
        &mut self,
        context: &[TokenId],
        sources: [Option<&I>; 2],
        max_nodes: usize,
    ) {
        self.path.clear();
        self.path.extend_from_slice(context);
        self.context = context.len();
        self.nodes.clear();
        self.open.clear();
        let places = [0..self.places[0].len(), 0..self.places[1].len()];
        self.nodes.push(Node {
            token: 0,
            parent: ROOT,
            value: 1.0,
            places,
        });
        self.expand(ROOT, sources);
        while self.nodes.len() <= max_nodes {
            let Some(open) = self.open.pop() else { break };
            let Some(token) = open.token else {
                self.expand(open.parent, sources);
                continue;
            };
            let node = self.take(open, token, sources);
            self.open.push(Open {
                value: open.value * HOPE,
                parent: node,
                token: None,
            });
        }
    }

    fn take(&mut self, open: Open, token: TokenId, sources: [Option<&I>; 2]) -> usize {
        let mut ranges = self.nodes[open.parent].places.clone();
        self.path.truncate(self.context);
        let mut above = open.parent;
        while above != ROOT {
            self.path.insert(self.context, self.nodes[above].token);
            above = self.nodes[above].parent;
        }
        self.path.push(token);
        for ((range, places), source) in ranges.iter_mut().zip(&mut self.places).zip(sources) {
            let Some(source) = source else { continue };
            let first = places.len();
            if source.looks_up_again() {
                source.follow(context_of(&self.path), 1, &mut self.found);
                places.extend_from_slice(&self.found);
            } else {
                for index in range.clone() {
                    places.extend(source.advance(places[index], token));
                }
                places.extend(source.first(token));
            }
            *range = first..places.len();
        }
        self.nodes.push(Node {
            token,
            parent: open.parent,
            value: open.value,
            places: ranges,
        });
        self.nodes.len() - 1
    }

    fn expand(&mut self, parent: usize, sources: [Option<&I>; 2]) {
        let node = &self.nodes[parent];
        let above = node.value;
        self.counts.clear();
        let weights = [self.tuning.own, 1.0];
        for (index, source) in sources.iter().enumerate() {
            if let Some(source) = source {
                let places = &self.places[index][node.places[index].clone()];
                source.count(places, weights[index], &mut self.counts);
            }
        }
        self.blend();
        for (&token, &probability) in self.counts.tokens.iter().zip(&self.values) {
            let value = above * probability;
            if value >= LEAST_VALUE {
                self.open.push(Open {
                    value,
                    parent,
                    token: Some(token),
                });
            }
        }
    }

    fn blend(&mut self) {
        let Counts {
            by_level, totals, ..
        } = &self.counts;
        self.values.clear();
        self.values.resize(by_level.len(), 0.0);
        for (level, &total) in totals.iter().enumerate() {
            if total == 0.0 {
                continue;
            }
            let distinct = by_level.iter().filter(|counts| counts[level] > 0.0).count();
            let escape = self.tuning.escape * ESCAPES[level] * (distinct as f32).sqrt();
            let scale = 1.0 / (total + escape);
            for (value, counts) in self.values.iter_mut().zip(by_level) {
                *value = (counts[level] + escape * *value) * scale;
            }
        }
    }

    /// Drafted nodes.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len() - 1
    }

    /// Number of nodes on the path that `rest` takes.
    pub(crate) fn accepted(&self, rest: &[TokenId]) -> usize {
        let mut parent = ROOT;
        for (depth, &token) in rest.iter().enumerate() {
            let mut below = self.nodes.iter().enumerate().skip(1);
            let Some((child, _)) =
                below.find(|(_, node)| node.parent == parent && node.token == token)
            else {
                return depth;
            };
            parent = child;
        }
        rest.len()
    }
}
