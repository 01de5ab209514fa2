//! What a step's forward gives its requests beside the tokens they emitted.

use std::ops::Range;

use crate::forward::TopTokens;
use crate::request_key::RequestKey;
use crate::speculation::{Drafting, SentTree};

/// A row's token and the one before it.
type Pair = (Option<u32>, u32);

/// One request's share of a step's feedback.
#[derive(Debug)]
pub(crate) struct Share {
    pub(crate) key: RequestKey,
    /// Its rows after which the likeliest tokens are known, among those of the step.
    rows: Range<usize>,
    /// Where the tokens of these rows are in [`Feedback::pairs`].
    first_pair: usize,
}

/// What the model gave after the rows of a step, and who learns from it.
#[derive(Debug, Default)]
pub(crate) struct Feedback {
    waiting: Vec<Share>,
    pairs: Vec<Pair>,
    ids: Vec<i32>,
    probabilities: Vec<f32>,
}

impl Feedback {
    /// The result of a forward, not yet evaluated. It is copied: the next forward overwrites it.
    pub(crate) fn new(top: Option<TopTokens<'_>>) -> Self {
        let mut feedback = Self::default();
        if let Some(top) = top {
            feedback.pairs.reserve(top.num_rows());
            feedback.ids.extend_from_slice(top.ids);
            feedback.probabilities.extend_from_slice(top.probabilities);
        }
        feedback
    }

    /// Shares not yet taken.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Keeps a share for later.
    pub(crate) fn push(&mut self, share: Share) {
        self.waiting.push(share);
    }

    /// The share that is taken next.
    pub(crate) fn pop(&mut self) -> Option<Share> {
        self.waiting.pop()
    }

    /// The share of a chunk that ends with the last of `cached`, the tokens now in the cache: its last
    /// rows are `rows`.
    pub(crate) fn of_chunk(
        &mut self,
        key: RequestKey,
        cached: &[u32],
        rows: Range<usize>,
    ) -> Share {
        let known = cached.len() - rows.len()..cached.len();
        let before = |index: usize| index.checked_sub(1).map(|index| cached[index]);
        self.share(key, rows, known.map(|index| (before(index), cached[index])))
    }

    /// The share of a tree whose root is the token at `base` of `tokens`, rows accepted or not.
    pub(crate) fn of_tree(
        &mut self,
        key: RequestKey,
        tokens: &[u32],
        base: usize,
        tree: &SentTree,
        rows: Range<usize>,
    ) -> Share {
        let token = |row: usize| match row {
            0 => tokens[base],
            row => tree.node(row).token,
        };
        let before = |row: usize| match row {
            0 => base.checked_sub(1).map(|index| tokens[index]),
            row => Some(token(tree.parent(row))),
        };
        let known = 0..rows.len();
        self.share(key, rows, known.map(|row| (before(row), token(row))))
    }

    fn share(
        &mut self,
        key: RequestKey,
        rows: Range<usize>,
        pairs: impl Iterator<Item = Pair>,
    ) -> Share {
        let first_pair = self.pairs.len();
        self.pairs.extend(pairs);
        Share {
            key,
            rows,
            first_pair,
        }
    }

    /// Lets a request learn what the model gave, and what came of its last draft.
    pub(crate) fn teach(&self, share: &Share, drafting: &mut Drafting) {
        let top = TopTokens {
            ids: &self.ids,
            probabilities: &self.probabilities,
        };
        if !self.ids.is_empty() {
            let pairs = &self.pairs[share.first_pair..];
            for (row, &(before, last)) in share.rows.clone().zip(pairs) {
                top.with_row(row, |tokens| drafting.recycle(before, last, tokens));
            }
        }
        drafting.train();
    }
}
