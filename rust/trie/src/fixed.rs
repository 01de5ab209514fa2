//! The fixed modes: breadth-first by recency and best-first by plain counts.
//!
//! Both visit every match length from the longest to the shortest. The continuations of a length
//! form a small trie, and its nodes are taken until the budget is full; equal paths merge. The
//! shape follows these rules alone; each node's value is then scored as in the adaptive mode.

use std::cmp::Reverse;
use std::collections::VecDeque;

use crate::chains::Occurrence;
use crate::places::Places;
use crate::prediction::Prediction;
use crate::score::Candidate;
use crate::sketch::{ROOT, Sketch};
use crate::{DraftConfig, DraftMode, TokenId};

/// Occurrences per order for the fixed modes, whose counts are all the evidence they use.
pub(crate) const LIMITS: [u32; 4] = [64, 64, 64, 64];

/// A node to expand: with the occurrences of one match length only.
#[derive(Debug)]
struct Front {
    node: u32,
    occurrences: Vec<Occurrence>,
    breadth: f32,
    share: f32,
}

/// A continuation of a front with its occurrences, newest first.
struct Branch {
    token: TokenId,
    place: u16,
    occurrences: Vec<Occurrence>,
}

/// Takes the tree of a fixed mode into `sketch`, which has been started.
pub(crate) fn select(
    config: &DraftConfig,
    max_nodes: usize,
    sketch: &mut Sketch,
    places: &Places<'_>,
    prediction: &Prediction,
) {
    let root = sketch.nodes[ROOT as usize];
    let mut occurrences = sketch.occurrences[root.first as usize..root.last as usize].to_vec();
    // Newest first within a log; the request's own texts before shared ones.
    occurrences.sort_by_key(|occurrence| (occurrence.place, Reverse(occurrence.position)));
    for length in (config.min_match..=config.max_match).rev() {
        let matching: Vec<_> = occurrences
            .iter()
            .filter(|occurrence| usize::from(occurrence.matched) >= length)
            .copied()
            .collect();
        if matching.is_empty() {
            continue;
        }
        let front = Front {
            node: ROOT,
            occurrences: matching,
            breadth: breadth_at(config, length),
            share: 1.0,
        };
        grow(front, config, max_nodes, sketch, places, prediction);
        if sketch.len() >= max_nodes {
            break;
        }
    }
    give_values(sketch);
}

/// Children of the first node for a match of `length` tokens in `bfs`: few for a long match.
fn breadth_at(config: &DraftConfig, length: usize) -> f32 {
    let span = (config.max_breadth - config.min_breadth) as f32;
    let left = config.max_match - length;
    span * left as f32 / config.max_match as f32 + config.min_breadth as f32
}

fn grow(
    front: Front,
    config: &DraftConfig,
    max_nodes: usize,
    sketch: &mut Sketch,
    places: &Places<'_>,
    prediction: &Prediction,
) {
    let step = (config.max_breadth - config.min_breadth) as f32 / config.max_depth as f32;
    let by_count = config.mode == DraftMode::Prob;
    let mut open = VecDeque::from([front]);
    while let Some(front) = next_front(&mut open, by_count) {
        if front.node != ROOT
            && usize::from(sketch.nodes[front.node as usize].depth) >= config.max_depth
        {
            continue;
        }
        let mut branches = branches(&front.occurrences);
        if by_count {
            branches.sort_by_key(|branch| Reverse(branch.occurrences.len()));
            branches.truncate(config.max_breadth);
        } else {
            branches.truncate(front.breadth.max(config.min_breadth as f32) as usize);
        }
        let total: usize = branches.iter().map(|branch| branch.occurrences.len()).sum();
        for branch in branches {
            let known = sketch.child(front.node, branch.token);
            if known.is_none() && sketch.len() >= max_nodes {
                return;
            }
            let node = known.unwrap_or_else(|| {
                let candidate = Candidate {
                    token: branch.token,
                    probability: 0.0,
                    place: branch.place,
                };
                sketch.take(front.node, candidate, 0.0, places, prediction)
            });
            let share = front.share * branch.occurrences.len() as f32 / total as f32;
            let occurrences: Vec<_> = branch
                .occurrences
                .iter()
                .filter_map(|&o| places.advance(o))
                .collect();
            if !occurrences.is_empty() {
                let breadth = front.breadth - step;
                open.push_back(Front {
                    node,
                    occurrences,
                    breadth,
                    share,
                });
            }
        }
    }
}

/// The oldest front, or by count the one with the largest share.
fn next_front(open: &mut VecDeque<Front>, by_count: bool) -> Option<Front> {
    if !by_count {
        return open.pop_front();
    }
    let best = (0..open.len()).max_by(|&a, &b| {
        open[a]
            .share
            .total_cmp(&open[b].share)
            .then_with(|| b.cmp(&a))
    })?;
    open.remove(best)
}

/// Occurrences by their next token, in the order of first sight.
fn branches(occurrences: &[Occurrence]) -> Vec<Branch> {
    let mut branches: Vec<Branch> = Vec::new();
    for &occurrence in occurrences {
        match branches
            .iter_mut()
            .find(|branch| branch.token == occurrence.next)
        {
            Some(branch) => {
                branch.place = branch.place.min(occurrence.place);
                branch.occurrences.push(occurrence);
            }
            None => branches.push(Branch {
                token: occurrence.next,
                place: occurrence.place,
                occurrences: vec![occurrence],
            }),
        }
    }
    branches
}

/// Scores every chosen node from all the occurrences behind its parent.
fn give_values(sketch: &mut Sketch) {
    for parent in 0..sketch.nodes.len() as u32 {
        let above = sketch.nodes[parent as usize];
        let occurrences = &sketch.occurrences[above.first as usize..above.last as usize];
        sketch.scorer.score(occurrences, &mut sketch.candidates);
        for candidate in &sketch.candidates {
            let Some(child) = sketch.child(parent, candidate.token) else {
                continue;
            };
            let node = &mut sketch.nodes[child as usize];
            node.value = above.value * candidate.probability;
            node.place = candidate.place;
        }
    }
}
