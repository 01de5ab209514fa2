//! A draft tree while it is being chosen.

use crate::chains::Occurrence;
use crate::places::{Places, REQUEST};
use crate::prediction::{Cursor, Prediction};
use crate::score::{Candidate, Scorer};
use crate::{DraftNode, DraftTree, TokenId};

/// Index of the root, the last pushed token, in [`Sketch::nodes`].
pub(crate) const ROOT: u32 = 0;

/// A chosen node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pick {
    pub(crate) token: TokenId,
    pub(crate) parent: u32,
    pub(crate) depth: u16,
    pub(crate) value: f32,
    pub(crate) place: u16,
    /// Where the prediction is when this path is taken.
    pub(crate) cursor: Option<Cursor>,
    /// Its occurrences, as a range of [`Sketch::occurrences`].
    pub(crate) first: u32,
    pub(crate) last: u32,
}

/// Chosen nodes, the root first and parents before children, with the occurrences behind them.
/// Kept between drafts for its memory.
#[derive(Debug, Default)]
pub(crate) struct Sketch {
    pub(crate) nodes: Vec<Pick>,
    pub(crate) occurrences: Vec<Occurrence>,
    pub(crate) scorer: Scorer,
    pub(crate) candidates: Vec<Candidate>,
}

impl Sketch {
    /// Starts again from the root, whose occurrences have been collected.
    pub(crate) fn start(&mut self, cursor: Option<Cursor>) {
        self.nodes.clear();
        self.nodes.push(Pick {
            token: 0,
            parent: ROOT,
            depth: 0,
            value: 1.0,
            place: REQUEST,
            cursor,
            first: 0,
            last: self.occurrences.len() as u32,
        });
    }

    /// Number of draft nodes, the root not counted.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len().saturating_sub(1)
    }

    /// Takes a child of `parent`; its occurrences are those of the parent that continue with it.
    pub(crate) fn take(
        &mut self,
        parent: u32,
        candidate: Candidate,
        value: f32,
        places: &Places<'_>,
        prediction: &Prediction,
    ) -> u32 {
        let above = self.nodes[parent as usize];
        let first = self.occurrences.len() as u32;
        for index in above.first..above.last {
            let occurrence = self.occurrences[index as usize];
            if occurrence.next == candidate.token
                && let Some(next) = places.advance(occurrence)
            {
                self.occurrences.push(next);
            }
        }
        let cursor = above
            .cursor
            .filter(|&cursor| prediction.token(cursor) == Some(candidate.token))
            .map(Prediction::step);
        self.nodes.push(Pick {
            token: candidate.token,
            parent,
            depth: above.depth + 1,
            value,
            place: candidate.place,
            cursor,
            first,
            last: self.occurrences.len() as u32,
        });
        (self.nodes.len() - 1) as u32
    }

    /// The child of `parent` that carries `token`.
    pub(crate) fn child(&self, parent: u32, token: TokenId) -> Option<u32> {
        let below = self.nodes.iter().enumerate().skip(parent as usize + 1);
        below
            .filter(|(_, node)| node.parent == parent && node.token == token)
            .map(|(index, _)| index as u32)
            .next()
    }

    /// The tree in depth-first order, the likeliest child first.
    pub(crate) fn tree(&self) -> DraftTree {
        let mut order: Vec<u32> = (1..self.nodes.len() as u32).collect();
        // Descending, so that siblings are pushed on the stack with the likeliest on top.
        order.sort_by(|&a, &b| {
            let (a, b) = (&self.nodes[a as usize], &self.nodes[b as usize]);
            a.value.total_cmp(&b.value).then(b.token.cmp(&a.token))
        });
        let mut next_sibling = vec![ROOT; self.nodes.len()];
        let mut first_child = vec![ROOT; self.nodes.len()];
        for &index in &order {
            let parent = self.nodes[index as usize].parent as usize;
            next_sibling[index as usize] = first_child[parent];
            first_child[parent] = index;
        }
        let mut nodes: Vec<DraftNode> = Vec::with_capacity(self.len());
        let mut stack = vec![(first_child[ROOT as usize], None)];
        while let Some((index, parent)) = stack.pop() {
            if index == ROOT {
                continue;
            }
            let pick = self.nodes[index as usize];
            let placed = nodes.len() as u32;
            nodes.push(DraftNode {
                token: pick.token,
                parent,
                depth: pick.depth,
                value: pick.value,
                source: Places::source(pick.place),
            });
            stack.push((next_sibling[index as usize], parent));
            stack.push((first_child[index as usize], Some(placed)));
        }
        DraftTree { nodes }
    }
}
