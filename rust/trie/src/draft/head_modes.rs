//! The modes that draft from a drafter of the runner's alone: EAGLE-2's tree, and a chain.
//!
//! EAGLE-2 (Li et al. 2024, arXiv 2406.16858) expands the `k` likeliest nodes of each level by their `k` likeliest
//! tokens, then drafts those of all candidates with the largest products of probabilities. No product is larger than
//! that of its parent: so what is among the largest after a level keeps its parents, and what is not never will be.
//! A chain is the same with one node and one token.

use crate::score::candidate::Candidate;
use crate::sources::all::AllSources;
use crate::sources::prediction::Prediction;
use crate::{DraftConfig, TokenId};

use super::tree_builder::{ROOT, TreeBuilder};

/// A child of a node that was taken.
struct Beam {
    parent: u32,
    token: TokenId,
    origin: u16,
    value: f32,
}

/// Takes the likeliest `max_nodes` paths of the answers into `builder`, which has been started, `beams` tokens of each
/// answer.
pub(crate) fn select(
    config: &DraftConfig,
    max_nodes: usize,
    beams: usize,
    builder: &mut TreeBuilder,
    sources: &AllSources<'_>,
    prediction: &Prediction,
) {
    let mut open = Vec::new();
    push(&mut open, builder, sources, ROOT, beams);
    while builder.len() < max_nodes {
        let best = (0..open.len()).max_by(|&a, &b| {
            let (one, other): (&Beam, &Beam) = (&open[a], &open[b]);
            // Of equals the one thought of first.
            one.value.total_cmp(&other.value).then_with(|| b.cmp(&a))
        });
        let Some(best) = best else { return };
        let Beam {
            parent,
            token,
            origin,
            value,
        } = open.remove(best);
        if builder.child(parent, token).is_some() {
            // An answer that names a token twice.
            continue;
        }
        let candidate = Candidate {
            token,
            probability: value,
            origin,
        };
        let node = builder.take(parent, candidate, value, sources, prediction);
        if usize::from(builder.nodes[node as usize].depth) < config.max_depth {
            push(&mut open, builder, sources, node, beams);
        }
    }
}

/// The likeliest tokens behind a node that was answered.
fn push(
    open: &mut Vec<Beam>,
    builder: &TreeBuilder,
    sources: &AllSources<'_>,
    parent: u32,
    beams: usize,
) {
    let above = builder.nodes[parent as usize];
    let Some(asked) = above.asked else { return };
    let answer = sources.asked.answer(asked);
    let likeliest = answer.likeliest.tokens().iter().take(beams);
    open.extend(likeliest.map(|&(token, probability)| Beam {
        parent,
        token,
        origin: answer.origin,
        value: above.value * probability,
    }));
}
