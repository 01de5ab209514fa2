//! The tree of the likeliest paths.
//!
//! A child is never likelier than its parent, so taking the best open path again and again gives
//! the set of nodes with the largest expected number of accepted tokens under the node budget.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use spectrie_types::sizes::MAX_DRAFTERS;

use crate::TokenId;
use crate::draft::tree_builder::{ROOT, TreeBuilder};
use crate::score::calibration::Calibration;
use crate::score::candidate::Candidate;
use crate::score::evidence::{Context, Evidence, Seen};
use crate::score::head::{self, HeadScored};
use crate::score::mixer::Mixer;
use crate::score::scorer::{Scored, Scorer};
use crate::sources::all::{AllSources, PREDICTION};
use crate::sources::head_place::Place;
use crate::sources::prediction::{Cursor, Prediction};

/// Paths less likely than this are not worth the heap's work at any price.
const MIN_VALUE: f32 = 5e-4;

/// What the best child of a node is taken for before the node is scored, as a share of the node's
/// value. Most nodes are less likely than the last one that finds room, and are never scored.
/// Where the model's answers are known more nodes have a good child.
const HOPE: f32 = 0.3;
const HOPE_OF_ANSWERS: f32 = 0.5;

/// Nodes at least this likely are also scored with hints, and with those that know no context. Less
/// likely nodes would not gain a child by them.
const HINT_VALUE: f32 = 0.2;
const RECENT_VALUE: f32 = 0.3;

/// A path that may be taken next, or a taken node that may be scored.
#[derive(Clone, Copy, Debug)]
struct Open {
    value: f32,
    /// The node itself when there is no candidate.
    parent: u32,
    candidate: Option<Candidate>,
}

impl Open {
    fn token(&self) -> Option<TokenId> {
        self.candidate.map(|candidate| candidate.token)
    }
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
        // Values are positive, so their bits are in their order.
        let order = |open: &Self| u64::from(open.value.to_bits()) << 32 | u64::from(!open.parent);
        order(self)
            .cmp(&order(other))
            .then_with(|| other.token().cmp(&self.token()))
    }
}

/// What a scored node expected: the label of the next emitted token trains it.
#[derive(Debug)]
struct Expectation {
    scored: Scored,
    /// Its candidates, as a range of [`Expectations::seen`].
    first: u32,
    last: u32,
    /// What was expected with the answer of a drafter of the runner's.
    head: Option<Box<HeadScored>>,
}

/// What a search expected of each node.
#[derive(Debug, Default)]
pub(crate) struct Expectations {
    /// Per node of the tree; absent for those that were never scored.
    of_nodes: Vec<Option<Expectation>>,
    seen: Seen,
}

/// The search, and what it expected. Kept between drafts for its memory.
#[derive(Debug, Default)]
pub(crate) struct BestFirst {
    open: BinaryHeap<Open>,
    /// Values of open paths, while the least of some is found.
    values: Vec<f32>,
    pub(crate) expected: Expectations,
}

/// What the request has learned about its scores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trained<'a> {
    pub(crate) mixer: &'a Mixer,
    /// How right the scores have been.
    pub(crate) calibration: Calibration,
    /// How right they have been with answers of the drafter of the runner's that is asked.
    pub(crate) asked: Calibration,
}

/// What one search may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) max_nodes: usize,
    pub(crate) max_depth: usize,
    pub(crate) min_value: f32,
    pub(crate) hints: bool,
}

impl BestFirst {
    /// Forgets the last search, as when another mode drafted.
    pub(crate) fn clear(&mut self) {
        self.expected.of_nodes.clear();
        self.expected.seen.clear();
        self.open.clear();
    }

    /// Takes the likeliest paths into `builder`, which has been started. The root is scored even
    /// when nothing may be taken.
    pub(crate) fn search(
        &mut self,
        builder: &mut TreeBuilder,
        sources: &AllSources<'_>,
        prediction: &Prediction,
        trained: Trained<'_>,
        bounds: Bounds,
    ) {
        self.clear();
        self.expected.of_nodes.push(None);
        self.expand(ROOT, builder, sources, prediction, trained, bounds);
        let least = self.least_taken(bounds.max_nodes);
        let bounds = Bounds {
            min_value: bounds.min_value.max(least),
            ..bounds
        };
        let hope = if sources.has_answers() {
            HOPE_OF_ANSWERS
        } else {
            HOPE
        };
        while builder.len() < bounds.max_nodes {
            let Some(open) = self.open.pop() else { break };
            let Some(candidate) = open.candidate else {
                self.expand(open.parent, builder, sources, prediction, trained, bounds);
                continue;
            };
            let node = builder.take(open.parent, candidate, open.value, sources, prediction);
            self.expected.of_nodes.push(None);
            let hoped = open.value * hope;
            let is_deepest = usize::from(builder.nodes[node as usize].depth) >= bounds.max_depth;
            if !is_deepest && hoped >= least {
                self.open.push(Open {
                    value: hoped,
                    parent: node,
                    candidate: None,
                });
            }
        }
    }

    /// What a path must reach to be taken: as many as may be taken reach it already.
    fn least_taken(&mut self, max_nodes: usize) -> f32 {
        let Some(last) = max_nodes.checked_sub(1) else {
            return 0.0;
        };
        self.values.clear();
        self.values.extend(self.open.iter().map(|open| open.value));
        if self.values.len() <= last {
            return 0.0;
        }
        let (_, least, _) = self
            .values
            .select_nth_unstable_by(last, |a, b| b.total_cmp(a));
        *least
    }

    fn expand(
        &mut self,
        parent: u32,
        builder: &mut TreeBuilder,
        sources: &AllSources<'_>,
        prediction: &Prediction,
        trained: Trained<'_>,
        bounds: Bounds,
    ) {
        let node = builder.nodes[parent as usize];
        let before = builder.before(parent);
        let inherited = if parent == ROOT {
            builder.above
        } else {
            builder.nodes[node.parent as usize].below
        };
        builder.node_hints.clear();
        if bounds.hints && node.value >= HINT_VALUE {
            let below = builder.hints.expand(
                sources.request,
                before,
                node.token,
                inherited,
                node.value >= RECENT_VALUE,
                &mut builder.node_hints,
            );
            builder.nodes[parent as usize].below = below;
        }
        let context = Context {
            occurrences: &builder.occurrences[node.first as usize..node.last as usize],
            answers: &sources.answers(before, node.token),
            hints: &builder.node_hints,
            depth: node.depth,
            lately: trained.calibration.inputs(),
        };
        let expected = &mut self.expected;
        let first = expected.seen.tokens.len() as u32;
        let scored = builder.scorer.score(
            context,
            trained.mixer,
            &mut builder.candidates,
            &mut expected.seen,
        );
        let answer = node.asked.map(|index| sources.asked.answer(index));
        let head = answer.map(|answer| {
            let seen = &expected.seen.evidence[first as usize..];
            head::mix(
                answer,
                &mut builder.candidates,
                seen,
                scored.situation,
                trained.mixer,
            )
        });
        let trust = match &head {
            Some(_) => trained.asked.trust(),
            None => trained.calibration.trust(),
        };
        expected.of_nodes[parent as usize] = Some(Expectation {
            scored,
            first,
            last: expected.seen.tokens.len() as u32,
            head: head.map(Box::new),
        });
        for candidate in &mut builder.candidates {
            let probability = Calibration::of_drafted(candidate.probability);
            candidate.probability = Calibration::scale(probability, trust);
        }
        if let Some(cursor) = node.cursor {
            merge_prediction(&mut builder.candidates, prediction, cursor);
        }
        let sum: f32 = builder
            .candidates
            .iter()
            .map(|candidate| candidate.probability)
            .sum();
        let scale = node.value / sum.max(1.0);
        let min_value = bounds.min_value.max(MIN_VALUE);
        self.open
            .extend(builder.candidates.iter().filter_map(|&candidate| {
                let value = scale * candidate.probability;
                (value >= min_value).then_some(Open {
                    value,
                    parent,
                    candidate: Some(candidate),
                })
            }));
    }
}

impl Expectations {
    fn of(&self, node: u32) -> Option<(&Scored, &[TokenId], &[Evidence])> {
        let expectation = self.of_nodes.get(node as usize)?.as_ref()?;
        let range = expectation.first as usize..expectation.last as usize;
        let evidence = &self.seen.evidence[range.clone()];
        Some((&expectation.scored, &self.seen.tokens[range], evidence))
    }

    /// What was seen of the candidates of the root.
    #[cfg(test)]
    pub(crate) fn of_root(&self) -> Vec<(TokenId, Evidence)> {
        let (_, tokens, evidence) = self.of(ROOT).unwrap();
        std::iter::zip(tokens.iter().copied(), evidence.iter().copied()).collect()
    }

    /// Notes whether what was expected after `node` came with `token`; what was with an answer, in the
    /// calibration of who gave it. False where the node was not scored.
    pub(crate) fn label(
        &self,
        node: u32,
        token: TokenId,
        calibration: &mut Calibration,
        asked: &mut [Calibration; MAX_DRAFTERS],
    ) -> bool {
        let expectation = self.of(node);
        if let Some((scored, candidates, _)) = expectation {
            calibration.label(scored.mass, candidates.contains(&token));
        }
        if let Some(head) = self.head(node) {
            asked[head.drafter].label(head.mass, head.names(token));
        }
        expectation.is_some()
    }

    /// Trains the scores with the token that followed `node`, if it was scored.
    pub(crate) fn learn(&self, node: u32, token: TokenId, scorer: &Scorer, mixer: &mut Mixer) {
        if let Some((scored, candidates, evidence)) = self.of(node) {
            let came = candidates.iter().map(|&candidate| candidate == token);
            scorer.learn(scored, evidence.iter().zip(came), mixer);
        }
        if let Some(head) = self.head(node) {
            head.learn(token, mixer);
        }
    }

    fn head(&self, node: u32) -> Option<&HeadScored> {
        self.of_nodes.get(node as usize)?.as_ref()?.head.as_deref()
    }

    /// Which drafter of the runner's was asked and where, if `node` was scored with its answer. That may have
    /// been forgotten since.
    pub(crate) fn asked_at(&self, node: u32) -> Option<(usize, Place)> {
        let head = self.head(node)?;
        Some((head.drafter, head.place))
    }

    /// The candidates of a node, if it was scored.
    pub(crate) fn named(&self, node: u32) -> impl Iterator<Item = TokenId> {
        let tokens = self.of(node).map_or(&[][..], |(_, tokens, _)| tokens);
        tokens.iter().copied()
    }
}

/// Gives the token at the cursor its learned probability and the others a share of the rest.
fn merge_prediction(candidates: &mut Vec<Candidate>, prediction: &Prediction, cursor: Cursor) {
    let Some(token) = prediction.token(cursor) else {
        return;
    };
    let index = candidates
        .iter()
        .position(|candidate| candidate.token == token);
    let before = index.map_or(0.0, |index| candidates[index].probability);
    let likely = prediction.probability(cursor).max(before);
    // What is not the predicted token keeps its shares of what is left.
    let share = (1.0 - likely) / (1.0 - before).max(f32::EPSILON);
    for candidate in &mut *candidates {
        candidate.probability *= share;
    }
    let predicted = Candidate {
        token,
        probability: likely,
        origin: PREDICTION,
    };
    match index {
        Some(index) => candidates[index] = predicted,
        None => candidates.push(predicted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::all::REQUEST;
    use crate::sources::text::Text;

    #[test]
    fn the_prediction_leaves_the_rest_to_its_rivals() {
        let prediction = Prediction::new(&[5, 6, 7], Text::default());
        let cursor = Cursor { next: 1, run: 8 };
        let likely = prediction.probability(cursor);
        let rival = Candidate {
            token: 9,
            probability: 0.5,
            origin: REQUEST,
        };
        let mut candidates = vec![rival];
        merge_prediction(&mut candidates, &prediction, cursor);
        assert!((candidates[0].probability - 0.5 * (1.0 - likely)).abs() < 1e-6);
        assert_eq!((candidates[1].token, candidates[1].origin), (6, PREDICTION));
        let mut candidates = vec![rival, Candidate { token: 6, ..rival }];
        merge_prediction(&mut candidates, &prediction, cursor);
        assert!((candidates[1].probability - likely).abs() < 1e-6);
        assert_eq!((candidates.len(), candidates[1].origin), (2, PREDICTION));
    }
}
