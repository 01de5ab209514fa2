//! The fixed modes: breadth-first by recency and best-first by plain counts.
//!
//! Both visit every match length from the longest to the shortest. The continuations of a length
//! form a small trie, and its nodes are taken until the budget is full; equal paths merge. The
//! shape follows these rules alone; each node's value is then scored as in the adaptive mode.

use std::cmp::Reverse;
use std::collections::VecDeque;

use crate::draft::tree_builder::{ROOT, TreeBuilder};
use crate::score::calibration::Calibration;
use crate::score::candidate::Candidate;
use crate::score::evidence::{Context, Seen};
use crate::score::mixer::Mixer;
use crate::sources::all::AllSources;
use crate::sources::prediction::Prediction;
use crate::store::chains::Occurrence;
use crate::{DraftConfig, DraftMode, TokenId};

/// Occurrences per order for the fixed modes, whose counts are all the evidence they use.
pub(crate) const LIMITS: [u32; 4] = [64, 64, 64, 64];

/// A chosen node to expand, with its occurrences of one match length only.
struct Front {
    node: u32,
    occurrences: Vec<Occurrence>,
    /// Children in `bfs`, before rounding down.
    breadth: f32,
}

/// A continuation with its occurrences, newest first.
struct Branch {
    parent: u32,
    token: TokenId,
    origin: u16,
    occurrences: Vec<Occurrence>,
    /// Product of the shares of counts along the path, for `prob`.
    share: f32,
}

/// What every step of a selection needs.
struct Selection<'a, 'b> {
    config: &'a DraftConfig,
    max_nodes: usize,
    builder: &'a mut TreeBuilder,
    sources: &'a AllSources<'b>,
    prediction: &'a Prediction,
}

/// Takes the tree of a fixed mode into `builder`, which has been started.
pub(crate) fn select(
    config: &DraftConfig,
    max_nodes: usize,
    builder: &mut TreeBuilder,
    sources: &AllSources<'_>,
    prediction: &Prediction,
) {
    let root = builder.nodes[ROOT as usize];
    let mut occurrences = builder.occurrences[root.first as usize..root.last as usize].to_vec();
    // Newest first within a log; the request's own texts before shared ones.
    occurrences.sort_by_key(|occurrence| (occurrence.origin, Reverse(occurrence.position)));
    for length in (config.min_match..=config.max_match).rev() {
        let matching: Vec<_> = occurrences
            .iter()
            .filter(|occurrence| usize::from(occurrence.matched) >= length)
            .copied()
            .collect();
        if matching.is_empty() {
            continue;
        }
        let mut selection = Selection {
            config,
            max_nodes,
            builder,
            sources,
            prediction,
        };
        if config.mode == DraftMode::Prob {
            selection.grow_by_count(&matching);
        } else {
            selection.grow_by_recency(matching, breadth_at(config, length));
        }
        if builder.len() >= max_nodes {
            break;
        }
    }
    give_values(builder);
}

/// Children of the first node for a match of `length` tokens in `bfs`: few for a long match.
fn breadth_at(config: &DraftConfig, length: usize) -> f32 {
    let span = (config.max_breadth - config.min_breadth) as f32;
    let left = config.max_match - length;
    span * left as f32 / config.max_match as f32 + config.min_breadth as f32
}

impl Selection<'_, '_> {
    /// Level by level, the newest continuations first, fewer on each level.
    fn grow_by_recency(&mut self, occurrences: Vec<Occurrence>, breadth: f32) {
        let config = self.config;
        let step = (config.max_breadth - config.min_breadth) as f32 / config.max_depth as f32;
        let mut open = VecDeque::from([Front {
            node: ROOT,
            occurrences,
            breadth,
        }]);
        while let Some(front) = open.pop_front() {
            if !self.may_grow(front.node) {
                continue;
            }
            let breadth = front.breadth.max(config.min_breadth as f32);
            for branch in branches(front.node, &front.occurrences)
                .into_iter()
                .take(breadth as usize)
            {
                let Some(node) = self.take(&branch) else {
                    return;
                };
                let occurrences = self.advance(&branch);
                if !occurrences.is_empty() {
                    open.push_back(Front {
                        node,
                        occurrences,
                        breadth: breadth - step,
                    });
                }
            }
        }
    }

    /// The path with the largest product of shares first.
    fn grow_by_count(&mut self, occurrences: &[Occurrence]) {
        let mut open = self.shares(ROOT, occurrences, 1.0);
        while let Some(best) = (0..open.len()).max_by(|&a, &b| {
            open[a]
                .share
                .total_cmp(&open[b].share)
                .then_with(|| b.cmp(&a))
        }) {
            let branch = open.remove(best);
            let Some(node) = self.take(&branch) else {
                return;
            };
            if self.may_grow(node) {
                let occurrences = self.advance(&branch);
                open.extend(self.shares(node, &occurrences, branch.share));
            }
        }
    }

    /// The commonest continuations, with their share of the counts of those kept.
    fn shares(&self, parent: u32, occurrences: &[Occurrence], above: f32) -> Vec<Branch> {
        let mut kept = branches(parent, occurrences);
        kept.sort_by_key(|branch| Reverse(branch.occurrences.len()));
        kept.truncate(self.config.max_breadth);
        let total: usize = kept.iter().map(|branch| branch.occurrences.len()).sum();
        for branch in &mut kept {
            branch.share = above * branch.occurrences.len() as f32 / total as f32;
        }
        kept
    }

    fn may_grow(&self, node: u32) -> bool {
        usize::from(self.builder.nodes[node as usize].depth) < self.config.max_depth
    }

    /// The node of a branch, new or merged with an equal one; `None` when there is no room.
    fn take(&mut self, branch: &Branch) -> Option<u32> {
        if let Some(child) = self.builder.child(branch.parent, branch.token) {
            return Some(child);
        }
        if self.builder.len() >= self.max_nodes {
            return None;
        }
        let Branch {
            parent,
            token,
            origin,
            ..
        } = *branch;
        let candidate = Candidate {
            token,
            probability: 0.0,
            origin,
        };
        Some(
            self.builder
                .take(parent, candidate, 0.0, self.sources, self.prediction),
        )
    }

    fn advance(&self, branch: &Branch) -> Vec<Occurrence> {
        branch
            .occurrences
            .iter()
            .filter_map(|&o| self.sources.advance(o))
            .collect()
    }
}

/// Occurrences by their next token, in the order of first sight.
fn branches(parent: u32, occurrences: &[Occurrence]) -> Vec<Branch> {
    let mut branches: Vec<Branch> = Vec::new();
    for &occurrence in occurrences {
        match branches
            .iter_mut()
            .find(|branch| branch.token == occurrence.next)
        {
            Some(branch) => branch.occurrences.push(occurrence),
            None => branches.push(Branch {
                parent,
                token: occurrence.next,
                origin: occurrence.origin,
                occurrences: vec![occurrence],
                share: 0.0,
            }),
        }
    }
    branches
}

/// Scores every chosen node from all the occurrences after its parent.
fn give_values(builder: &mut TreeBuilder) {
    let mixer = Mixer::default();
    let mut seen = Seen::default();
    for parent in 0..builder.nodes.len() as u32 {
        let above = builder.nodes[parent as usize];
        let context = Context {
            occurrences: &builder.occurrences[above.first as usize..above.last as usize],
            answers: &[None; 3],
            hints: &[],
            depth: above.depth,
            lately: Calibration::default().inputs(),
        };
        let candidates = &mut builder.candidates;
        builder.scorer.score(context, &mixer, candidates, &mut seen);
        for candidate in &builder.candidates {
            let Some(child) = builder.child(parent, candidate.token) else {
                continue;
            };
            let node = &mut builder.nodes[child as usize];
            node.value = above.value * candidate.probability;
            node.origin = candidate.origin;
        }
    }
}
