//! What a step's forward teaches its requests beside the tokens they emitted.

use std::ops::Range;

use crate::forward::TopTokens;
use crate::request_key::RequestKey;
use crate::sequence::sequence::Sequence;
use crate::speculation::tree::SentTree;

/// A row's token and the one before it.
type Pair = (Option<u32>, u32);

/// What one request has to learn from a step.
#[derive(Debug)]
pub(crate) struct Lesson {
    pub(crate) key: RequestKey,
    /// Its rows after which the likeliest tokens are known, among those of the step.
    rows: Range<usize>,
    /// Where the tokens of these rows are in [`Lessons::pairs`].
    first_pair: usize,
}

/// What the model gave after the rows of a step, and who learns from it.
#[derive(Debug, Default)]
pub(crate) struct Lessons {
    waiting: Vec<Lesson>,
    pairs: Vec<Pair>,
    ids: Vec<i32>,
    probabilities: Vec<f32>,
}

impl Lessons {
    /// Lessons from what a forward gave, for nobody yet. It is copied: the next forward overwrites it.
    pub(crate) fn new(top: Option<TopTokens<'_>>) -> Self {
        let mut lessons = Self::default();
        if let Some(top) = top {
            lessons.pairs.reserve(top.num_rows());
            lessons.ids.extend_from_slice(top.ids);
            lessons.probabilities.extend_from_slice(top.probabilities);
        }
        lessons
    }

    /// Lessons not yet taken.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// A lesson for later.
    pub(crate) fn push(&mut self, lesson: Lesson) {
        self.waiting.push(lesson);
    }

    /// The lesson that is taken next.
    pub(crate) fn pop(&mut self) -> Option<Lesson> {
        self.waiting.pop()
    }

    /// The lesson from a chunk: its last rows in the cache are `rows`.
    pub(crate) fn of_chunk(
        &mut self,
        key: RequestKey,
        sequence: &Sequence,
        rows: Range<usize>,
    ) -> Lesson {
        let tokens = &sequence.tokens;
        let known = sequence.kv_len - rows.len()..sequence.kv_len;
        let before = |index: usize| index.checked_sub(1).map(|index| tokens[index]);
        self.lesson(key, rows, known.map(|index| (before(index), tokens[index])))
    }

    /// The lesson from a tree whose root is the token at `base`, rows accepted or not.
    pub(crate) fn of_tree(
        &mut self,
        key: RequestKey,
        sequence: &Sequence,
        base: usize,
        tree: &SentTree,
        rows: Range<usize>,
    ) -> Lesson {
        let tokens = &sequence.tokens;
        let token = |row: usize| match row {
            0 => tokens[base],
            row => tree.node(row).token,
        };
        let before = |row: usize| match row {
            0 => base.checked_sub(1).map(|index| tokens[index]),
            row => Some(token(tree.parent(row))),
        };
        let known = 0..rows.len();
        self.lesson(key, rows, known.map(|row| (before(row), token(row))))
    }

    fn lesson(
        &mut self,
        key: RequestKey,
        rows: Range<usize>,
        pairs: impl Iterator<Item = Pair>,
    ) -> Lesson {
        let first_pair = self.pairs.len();
        self.pairs.extend(pairs);
        Lesson {
            key,
            rows,
            first_pair,
        }
    }

    /// Lets a request learn what the model gave, and what came of its last draft.
    pub(crate) fn learn(&self, lesson: &Lesson, sequence: &mut Sequence) {
        let drafting = &mut sequence.drafting;
        let top = TopTokens {
            ids: &self.ids,
            probabilities: &self.probabilities,
        };
        if !self.ids.is_empty() {
            let pairs = &self.pairs[lesson.first_pair..];
            for (row, &(before, last)) in lesson.rows.clone().zip(pairs) {
                top.with_row(row, |tokens| drafting.recycle(before, last, tokens));
            }
        }
        drafting.train();
    }
}
