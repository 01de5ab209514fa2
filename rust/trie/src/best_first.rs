//! The tree of the likeliest paths.
//!
//! A child is never likelier than its parent, so taking the best open path again and again gives
//! the set of nodes with the largest expected number of accepted tokens under the node budget.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::TokenId;
use crate::calibration::Calibration;
use crate::mixer::{Features, Mixer};
use crate::places::{PREDICTION, Places};
use crate::prediction::{Cursor, Prediction};
use crate::score::Candidate;
use crate::sketch::{ROOT, Sketch};

/// Paths less likely than this are not worth the heap's work at any price.
const LEAST_VALUE: f32 = 1e-4;

/// A path that may be taken next.
#[derive(Clone, Copy, Debug)]
struct Open {
    value: f32,
    parent: u32,
    candidate: Candidate,
}

impl PartialEq for Open {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Open {}

impl PartialOrd for Open {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Open {
    fn cmp(&self, other: &Self) -> Ordering {
        // Ties go to the older node, then to the lower token, so that a replay is reproducible.
        self.value
            .total_cmp(&other.value)
            .then_with(|| other.parent.cmp(&self.parent))
            .then_with(|| other.candidate.token.cmp(&self.candidate.token))
    }
}

/// What an expanded node expected: the label of the next emitted token trains it.
#[derive(Debug, Default)]
pub(crate) struct Expectation {
    /// Sum of the probabilities, before the factor, of the text candidates.
    pub(crate) mass: f32,
    /// The text candidates, as a range of [`BestFirst::tokens`].
    pub(crate) first: u32,
    pub(crate) last: u32,
}

/// The search, and what it expected of each node. Kept between drafts for its memory.
#[derive(Debug, Default)]
pub(crate) struct BestFirst {
    open: BinaryHeap<Open>,
    /// Per node of the sketch; absent for nodes taken last and never expanded.
    expectations: Vec<Option<Expectation>>,
    tokens: Vec<TokenId>,
    /// The inputs of each token's probability.
    features: Vec<Features>,
}

/// What the request has learnt about its scores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trained<'a> {
    pub(crate) mixer: &'a Mixer,
    /// Factor on the odds: see [`Calibration`].
    pub(crate) factor: f32,
}

/// What one search may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) max_nodes: usize,
    pub(crate) max_depth: usize,
    pub(crate) min_value: f32,
}

impl BestFirst {
    /// Forgets the last search, as when another mode drafted.
    pub(crate) fn clear(&mut self) {
        self.expectations.clear();
        self.tokens.clear();
        self.features.clear();
        self.open.clear();
    }

    /// Takes the likeliest paths into `sketch`, which has been started. The root is scored even
    /// when nothing may be taken.
    pub(crate) fn search(
        &mut self,
        sketch: &mut Sketch,
        places: &Places<'_>,
        prediction: &Prediction,
        trained: Trained<'_>,
        bounds: Bounds,
    ) {
        self.clear();
        self.expand(ROOT, sketch, prediction, trained, bounds);
        while sketch.len() < bounds.max_nodes {
            let Some(open) = self.open.pop() else { break };
            let node = sketch.take(open.parent, open.candidate, open.value, places, prediction);
            let full = sketch.len() >= bounds.max_nodes;
            let deep = usize::from(sketch.nodes[node as usize].depth) >= bounds.max_depth;
            if full || deep {
                self.expectations.push(None);
            } else {
                self.expand(node, sketch, prediction, trained, bounds);
            }
        }
    }

    fn expand(
        &mut self,
        parent: u32,
        sketch: &mut Sketch,
        prediction: &Prediction,
        trained: Trained<'_>,
        bounds: Bounds,
    ) {
        let node = sketch.nodes[parent as usize];
        let occurrences = &sketch.occurrences[node.first as usize..node.last as usize];
        let mass = sketch.scorer.score(
            occurrences,
            node.depth,
            trained.mixer,
            &mut sketch.candidates,
        );
        let first = self.tokens.len() as u32;
        self.tokens
            .extend(sketch.candidates.iter().map(|candidate| candidate.token));
        self.features.extend_from_slice(&sketch.scorer.features);
        let last = self.tokens.len() as u32;
        self.expectations
            .push(Some(Expectation { mass, first, last }));

        for candidate in &mut sketch.candidates {
            candidate.probability = Calibration::apply(candidate.probability, trained.factor);
        }
        if let Some(cursor) = node.cursor {
            merge_prediction(&mut sketch.candidates, prediction, cursor);
        }
        let sum: f32 = sketch
            .candidates
            .iter()
            .map(|candidate| candidate.probability)
            .sum();
        let scale = node.value / sum.max(1.0);
        let least = bounds.min_value.max(LEAST_VALUE);
        for &candidate in &sketch.candidates {
            let value = scale * candidate.probability;
            if value >= least {
                self.open.push(Open {
                    value,
                    parent,
                    candidate,
                });
            }
        }
    }

    /// Trains the scores with the token that followed `node`, if it was expanded.
    pub(crate) fn learn(
        &self,
        node: u32,
        token: TokenId,
        mixer: &mut Mixer,
        calibration: &mut Calibration,
    ) {
        let Some(Some(expectation)) = self.expectations.get(node as usize) else {
            return;
        };
        let range = expectation.first as usize..expectation.last as usize;
        let mut hit = false;
        for (candidate, features) in self.tokens[range.clone()].iter().zip(&self.features[range]) {
            let came = *candidate == token;
            hit |= came;
            mixer.learn(features, came);
        }
        calibration.label(expectation.mass, hit);
    }
}

/// Gives the token at the cursor its learnt probability and the others a share of the rest.
fn merge_prediction(candidates: &mut Vec<Candidate>, prediction: &Prediction, cursor: Cursor) {
    let Some(token) = prediction.token(cursor) else {
        return;
    };
    let likely = prediction.probability(cursor);
    let mut known = false;
    for candidate in &mut *candidates {
        if candidate.token == token {
            known = true;
            candidate.probability = candidate.probability.max(likely);
            candidate.place = PREDICTION;
        } else {
            candidate.probability *= 1.0 - likely;
        }
    }
    if !known {
        candidates.push(Candidate {
            token,
            probability: likely,
            place: PREDICTION,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places::REQUEST;

    #[test]
    fn the_prediction_leaves_the_rest_to_its_rivals() {
        let prediction = Prediction::new(&[5, 6, 7]);
        let cursor = Cursor { next: 1, run: 8 };
        let likely = prediction.probability(cursor);
        let rival = Candidate {
            token: 9,
            probability: 0.5,
            place: REQUEST,
        };
        let mut candidates = vec![rival];
        merge_prediction(&mut candidates, &prediction, cursor);
        assert!((candidates[0].probability - 0.5 * (1.0 - likely)).abs() < 1e-6);
        assert_eq!((candidates[1].token, candidates[1].place), (6, PREDICTION));
        let mut candidates = vec![rival, Candidate { token: 6, ..rival }];
        merge_prediction(&mut candidates, &prediction, cursor);
        assert!((candidates[1].probability - likely).abs() < 1e-6);
        assert_eq!((candidates.len(), candidates[1].place), (2, PREDICTION));
    }
}
