//! What a step's forward gives its requests beside the tokens they emitted.

use std::ops::Range;

use crate::forward::TopTokens;
use crate::request_key::RequestKey;
use crate::speculation::{Drafting, SentTree};

/// What is known of a row after which the likeliest tokens are.
#[derive(Debug, Clone, Copy)]
struct Row {
    /// The token before its own.
    before: Option<u32>,
    last: u32,
    /// Which token of prompt ++ output it answers; where its own is not part of them, the last row above
    /// it whose token is.
    answer: usize,
}

/// One request's share of a step's feedback.
#[derive(Debug)]
pub(crate) struct Share {
    pub(crate) key: RequestKey,
    /// Its rows after which the likeliest tokens are known, among those of the step.
    rows: Range<usize>,
    /// Where these rows are in [`Feedback::known`].
    first_known: usize,
}

/// What the model gave after the rows of a step, and who learns from it.
#[derive(Debug, Default)]
pub(crate) struct Feedback {
    waiting: Vec<Share>,
    known: Vec<Row>,
    ids: Vec<i32>,
    probabilities: Vec<f32>,
}

impl Feedback {
    /// The result of a forward, not yet evaluated. It is copied: the next forward overwrites it.
    pub(crate) fn new(top: Option<TopTokens<'_>>) -> Self {
        let mut feedback = Self::default();
        if let Some(top) = top {
            feedback.known.reserve(top.num_rows());
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
        let first_known = self.known.len();
        let known = cached.len() - rows.len()..cached.len();
        self.known.extend(known.map(|index| Row {
            before: index.checked_sub(1).map(|index| cached[index]),
            last: cached[index],
            answer: index + 1,
        }));
        Share {
            key,
            rows,
            first_known,
        }
    }

    /// The share of a tree whose root is the token at `base` of `tokens`, those of its forward among
    /// them, rows accepted or not.
    pub(crate) fn of_tree(
        &mut self,
        key: RequestKey,
        tokens: &[u32],
        base: usize,
        tree: &SentTree,
        rows: Range<usize>,
    ) -> Share {
        let first_known = self.known.len();
        self.known.extend((!rows.is_empty()).then(|| Row {
            before: base.checked_sub(1).map(|index| tokens[index]),
            last: tokens[base],
            answer: base + 1,
        }));
        for row in 1..rows.len() {
            let (node, parent) = (tree.node(row), self.known[first_known + tree.parent(row)]);
            let index = base + usize::from(node.depth);
            let is_text = parent.answer == index && tokens.get(index) == Some(&node.token);
            self.known.push(Row {
                before: Some(parent.last),
                last: node.token,
                answer: parent.answer + usize::from(is_text),
            });
        }
        Share {
            key,
            rows,
            first_known,
        }
    }

    /// Lets a request learn what the model gave, and what came of its last draft. Rows count that answer
    /// one of the first `num_certain` tokens of prompt ++ output: a stop text may cut the others.
    pub(crate) fn teach(&self, share: &Share, num_certain: usize, drafting: &mut Drafting) {
        let top = TopTokens {
            ids: &self.ids,
            probabilities: &self.probabilities,
        };
        if !self.ids.is_empty() {
            let known = share.rows.clone().zip(&self.known[share.first_known..]);
            for (index, row) in known.filter(|(_, row)| row.answer < num_certain) {
                top.with_row(index, |tokens| {
                    drafting.recycle(row.before, row.last, tokens);
                });
            }
        }
        drafting.train();
    }
}
