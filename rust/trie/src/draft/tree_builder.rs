//! The builder of a draft tree.

use crate::score::candidate::Candidate;
use crate::score::scorer::Scorer;
use crate::sources::all::{AllSources, REQUEST};
use crate::sources::head_place::Came;
use crate::sources::hints::{Hint, Hints, Inherited, RUNNER_UP_STEPS};
use crate::sources::prediction::{Cursor, Prediction};
use crate::sources::recycled::answer::Answer;
use crate::store::chains::Occurrence;
use crate::{DraftNode, DraftTree, SEPARATOR, TokenId};

/// Index of the root, the last pushed token, in [`TreeBuilder::nodes`].
pub(crate) const ROOT: u32 = 0;

/// A chosen node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChosenNode {
    pub(crate) token: TokenId,
    pub(crate) parent: u32,
    pub(crate) depth: u16,
    pub(crate) value: f32,
    pub(crate) origin: u16,
    /// Where the prediction is when this path is taken.
    pub(crate) cursor: Option<Cursor>,
    /// Its occurrences, as a range of [`TreeBuilder::occurrences`].
    pub(crate) first: u32,
    pub(crate) last: u32,
    /// The hints that its children inherit, once it was expanded.
    pub(crate) below: Inherited,
    /// Its number among those that a drafter of the runner's answered.
    pub(crate) asked: Option<u32>,
}

/// Chosen nodes, the root first and parents before children, with the occurrences behind them.
/// Kept between drafts for its memory.
#[derive(Debug, Default)]
pub(crate) struct TreeBuilder {
    pub(crate) nodes: Vec<ChosenNode>,
    pub(crate) occurrences: Vec<Occurrence>,
    pub(crate) scorer: Scorer,
    pub(crate) candidates: Vec<Candidate>,
    /// The token before the root's.
    pub(crate) before: Option<TokenId>,
    pub(crate) hints: Hints,
    /// The hints that the root inherits.
    pub(crate) above: Inherited,
    /// The hints of the node that is being scored.
    pub(crate) node_hints: Vec<Hint>,
}

impl TreeBuilder {
    /// Starts again from the root, the last token of `context`, whose occurrences have been
    /// collected; `asked` is its number if a drafter of the runner's answered it.
    pub(crate) fn start(
        &mut self,
        context: &[TokenId],
        cursor: Option<Cursor>,
        asked: Option<u32>,
    ) {
        self.nodes.clear();
        self.before = context.len().checked_sub(2).map(|index| context[index]);
        self.nodes.push(ChosenNode {
            token: context.last().copied().unwrap_or(SEPARATOR),
            parent: ROOT,
            depth: 0,
            value: 1.0,
            origin: REQUEST,
            cursor,
            first: 0,
            last: self.occurrences.len() as u32,
            below: Inherited::default(),
            asked,
        });
    }

    /// Takes the hints of the request's text, whose end is `context`.
    pub(crate) fn start_hints(&mut self, sources: &AllSources<'_>, context: &[TokenId]) {
        let text = sources.request;
        let runner_up = |back: usize| {
            let last = context.len().checked_sub(back + 1)?;
            let before = context.get(last.checked_sub(1)?).copied();
            sources.after_pair(before, context[last])
        };
        let runners_up: [_; RUNNER_UP_STEPS] = std::array::from_fn(|index| runner_up(index + 1));
        let tokens = runners_up.iter().flatten().flat_map(Answer::tokens);
        self.hints.start(text, tokens.map(|&(token, _)| token));
        let mut back = context.iter().rev().skip(1).copied();
        self.above = match (back.next(), back.next()) {
            (Some(last), before) => self.hints.inherit(text, before, last),
            (None, _) => Inherited::default(),
        };
    }

    /// The token of a node's parent, if there is one.
    pub(crate) fn before(&self, node: u32) -> Option<TokenId> {
        if node == ROOT {
            return self.before;
        }
        let parent = self.nodes[node as usize].parent;
        Some(self.nodes[parent as usize].token)
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
        sources: &AllSources<'_>,
        prediction: &Prediction,
    ) -> u32 {
        let above = self.nodes[parent as usize];
        let first = self.occurrences.len() as u32;
        for index in above.first..above.last {
            let occurrence = self.occurrences[index as usize];
            if occurrence.next == candidate.token
                && let Some(next) = sources.advance(occurrence)
            {
                self.occurrences.push(next);
            }
        }
        let cursor = above
            .cursor
            .filter(|&cursor| prediction.token(cursor) == Some(candidate.token))
            .map(Prediction::step);
        self.nodes.push(ChosenNode {
            token: candidate.token,
            parent,
            depth: above.depth + 1,
            value,
            origin: candidate.origin,
            cursor,
            first,
            last: self.occurrences.len() as u32,
            below: Inherited::default(),
            asked: above
                .asked
                .and_then(|parent| sources.asked.child(parent, candidate.token)),
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

    /// What the children of `parent` came to, of those that are worth a row of this price once it is reached: `right`
    /// is the one that came, if it was drafted.
    pub(crate) fn came(&self, parent: u32, price: f32, right: Option<u32>) -> Came {
        let above = self.nodes[parent as usize].value;
        let below = self.nodes.iter().enumerate().skip(parent as usize + 1);
        let worth = below.filter(|(_, node)| node.parent == parent && node.value > price * above);
        worth.fold(Came::default(), |came, (index, node)| Came {
            is_hit: came.is_hit || right == Some(index as u32),
            rows: came.rows + 1,
            promised: came.promised + node.value / above,
        })
    }

    /// The newest position of `token` below `parent` in the text of `origin`.
    pub(crate) fn newest_place(&self, parent: u32, token: TokenId, origin: u16) -> Option<u32> {
        let above = self.nodes[parent as usize];
        let occurrences = &self.occurrences[above.first as usize..above.last as usize];
        let here = occurrences
            .iter()
            .filter(|o| o.next == token && o.origin == origin);
        here.map(|occurrence| occurrence.position).max()
    }

    /// The tree in depth-first order, the likeliest child first.
    pub(crate) fn tree(&self) -> DraftTree {
        let mut order: Vec<u32> = (1..self.nodes.len() as u32).collect();
        // Nodes were taken in nearly this order, which is quick to sort.
        order.sort_by(|&a, &b| {
            let (a, b) = (&self.nodes[a as usize], &self.nodes[b as usize]);
            b.value.total_cmp(&a.value).then(a.token.cmp(&b.token))
        });
        let mut next_sibling = vec![ROOT; self.nodes.len()];
        let mut first_child = vec![ROOT; self.nodes.len()];
        // The least likely first, so that the likeliest sibling comes to lie on top of the stack.
        for &index in order.iter().rev() {
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
            let chosen = self.nodes[index as usize];
            let placed = nodes.len() as u32;
            nodes.push(DraftNode {
                token: chosen.token,
                parent,
                depth: chosen.depth,
                value: chosen.value,
                source: AllSources::source(chosen.origin),
            });
            stack.push((next_sibling[index as usize], parent));
            stack.push((first_child[index as usize], Some(placed)));
        }
        DraftTree { nodes }
    }
}
