//! The levels of one step: what a drafter is asked, row by row, and its answers.

use std::collections::BTreeSet;

use spectrie_trie::{Inquiry, MAX_NAMED};
use spectrie_types::sizes::TOP_K;

use super::chosen::Why;
use super::fills::Fill;
use crate::error::EngineError;
use crate::forward::DraftAnswers;

/// A row of a level.
#[derive(Debug)]
pub(crate) struct LevelRow {
    /// Index of its request among those that decode.
    pub(crate) candidate: usize,
    pub(crate) inquiry: Inquiry,
    /// Number of its parent among all rows of this step; `None` in the first level.
    pub(crate) parent: Option<usize>,
}

/// The rows of a level that waits for its answers, those of a request together.
#[derive(Debug)]
pub(crate) struct LevelRows {
    /// Counts from 1.
    pub(crate) level: u16,
    /// Number of the first row among all rows of this step.
    pub(crate) first: usize,
    pub(crate) rows: Vec<LevelRow>,
    /// What is made up before, of requests with rows or of others.
    pub(crate) fills: Vec<Fill>,
    pub(in crate::speculation) share_ms: f64,
    pub(in crate::speculation) why: Why,
}

/// The levels of one step so far.
#[derive(Debug, Default)]
pub(crate) struct Levels {
    /// The one that waits for its answers.
    pub(in crate::speculation) open: Option<LevelRows>,
    pub(in crate::speculation) num_answered: usize,
    pub(in crate::speculation) num_rows: usize,
    /// Whether no further one follows.
    pub(in crate::speculation) is_over: bool,
    /// Whether further ones are for requests of fixed modes alone.
    pub(in crate::speculation) is_bought_over: bool,
    /// For each request, the row of each answer that it has, by its number.
    pub(in crate::speculation) row_of: Vec<Vec<usize>>,
    /// What answers that promised to pay took for each request, drafts that heed them included.
    pub(in crate::speculation) took_ms: Vec<f64>,
}

impl Levels {
    /// The level that waits for its answers.
    pub(crate) fn open(&self) -> Option<&LevelRows> {
        self.open.as_ref()
    }
}

impl LevelRows {
    /// The requests that have a part in it, ascending.
    pub(crate) fn candidates(&self) -> BTreeSet<usize> {
        let rows = self.rows.iter().map(|row| row.candidate);
        rows.chain(self.fills.iter().map(|fill| fill.candidate))
            .collect()
    }

    /// Checks that answers fit these rows.
    pub(in crate::speculation) fn check(
        &self,
        answers: &DraftAnswers<'_>,
        vocabulary_size: usize,
    ) -> Result<(), EngineError> {
        let named = self.rows.iter().map(|row| row.inquiry.named.len()).sum();
        for (what, given, expected) in [
            (
                "number of draft ids",
                answers.ids.len(),
                self.rows.len() * TOP_K,
            ),
            (
                "number of draft probabilities",
                answers.probabilities.len(),
                self.rows.len() * TOP_K,
            ),
            ("number of scored tokens", answers.scored.len(), named),
        ] {
            if given != expected {
                let allowed = format!("{expected}, {TOP_K} a row and {MAX_NAMED} scored at most");
                return Err(EngineError::Logits {
                    what,
                    given,
                    allowed,
                });
            }
        }
        let is_wrong = |&&id: &&i32| id >= 0 && id as usize >= vocabulary_size;
        match answers.ids.iter().find(is_wrong) {
            Some(&id) => Err(EngineError::Logits {
                what: "draft id",
                given: id as usize,
                allowed: format!("0 to {}, or below 0 for none", vocabulary_size - 1),
            }),
            None => Ok(()),
        }
    }
}

/// The likeliest tokens of row `row`: those before the first that is none.
pub(in crate::speculation) fn likeliest(answers: &DraftAnswers<'_>, row: usize) -> Vec<(u32, f32)> {
    let range = row * TOP_K..(row + 1) * TOP_K;
    let pairs = answers.ids[range.clone()]
        .iter()
        .zip(&answers.probabilities[range]);
    let known = pairs.take_while(|(id, probability)| **id >= 0 && **probability > 0.0);
    known
        .map(|(&id, &probability)| (id as u32, probability.min(1.0)))
        .collect()
}
