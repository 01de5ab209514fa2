//! What a forward gives back, and whether it fits its plan.

use spectrie_trie::TokenId;
use spectrie_types::sizes::TOP_K;

use crate::error::EngineError;
use crate::scheduling::scheduler::{InFlight, Scheduler, Work};

/// What a forward gave.
#[derive(Debug, Clone, Copy)]
pub struct StepResults<'a> {
    /// What the model said about each sampled row.
    pub verdicts: Verdicts<'a>,
    /// Its likeliest tokens after each top row; `None` recycles nothing.
    pub top: Option<TopTokens<'a>>,
}

/// What the model said about each sampled row of a plan.
#[derive(Debug, Clone, Copy)]
pub enum Verdicts<'a> {
    /// Rows of logits, `row_stride` values apart.
    Logits {
        /// The rows, from the first value of the first to the last value of the last.
        values: &'a [f32],
        /// Number of rows.
        num_rows: usize,
        /// Distance between the starts of two rows, in values.
        row_stride: usize,
    },
    /// The likeliest token of each row, below 0 where no logit is finite.
    Tokens(&'a [i32]),
}

impl<'a> From<Verdicts<'a>> for StepResults<'a> {
    fn from(verdicts: Verdicts<'a>) -> Self {
        Self {
            verdicts,
            top: None,
        }
    }
}

/// The likeliest tokens after each top row of a plan, at temperature 1.
#[derive(Debug, Clone, Copy)]
pub struct TopTokens<'a> {
    /// Eight a row, likeliest first; below 0 where there are no more, \[T * 8\].
    pub ids: &'a [i32],
    /// Their probabilities, \[T * 8\].
    pub probabilities: &'a [f32],
}

impl TopTokens<'_> {
    pub(crate) fn num_rows(&self) -> usize {
        self.ids.len() / TOP_K
    }

    /// Hands on the tokens and probabilities after one row.
    pub(crate) fn with_row(&self, row: usize, take: impl FnOnce(&[(TokenId, f32)])) {
        let range = row * TOP_K..(row + 1) * TOP_K;
        let given = self.ids[range.clone()].iter();
        let mut tokens = [(0, 0.0); TOP_K];
        let mut len = 0;
        for (&id, &probability) in given.zip(&self.probabilities[range]) {
            let Ok(id) = u32::try_from(id) else { break };
            tokens[len] = (id, probability);
            len += 1;
        }
        take(&tokens[..len]);
    }
}

impl Scheduler {
    /// The plan that waits for its results.
    pub(crate) fn open_plan(&self, plan_id: u64) -> Result<&InFlight, EngineError> {
        match &self.in_flight {
            Some(open) if open.plan_id == plan_id => Ok(open),
            other => Err(EngineError::UnknownPlan {
                given: plan_id,
                expected: other.as_ref().map(|open| open.plan_id),
            }),
        }
    }

    /// Checks that results fit a plan.
    pub(crate) fn check(
        &self,
        open: &InFlight,
        results: &StepResults<'_>,
    ) -> Result<(), EngineError> {
        if let Some(top) = results.top {
            self.check_top(open, top)?;
        }
        match results.verdicts {
            Verdicts::Logits {
                values,
                num_rows,
                row_stride,
            } => self.check_logits(open, values, num_rows, row_stride),
            Verdicts::Tokens(tokens) => {
                let expected = open.num_samples;
                if tokens.len() != expected {
                    let allowed = format!("{expected}, the sampled rows of the plan");
                    return Err(wrong("number of tokens", tokens.len(), allowed));
                }
                self.check_ids("token", tokens)?;
                self.check_greedy(open)
            }
        }
    }

    fn check_logits(
        &self,
        open: &InFlight,
        values: &[f32],
        num_rows: usize,
        row_stride: usize,
    ) -> Result<(), EngineError> {
        let (expected, vocabulary) = (open.num_samples, self.config.vocabulary_size);
        if num_rows != expected {
            let allowed = format!("{expected}, the sampled rows of the plan");
            return Err(wrong("number of rows", num_rows, allowed));
        }
        if num_rows == 0 {
            return Ok(());
        }
        if row_stride < vocabulary {
            let allowed = format!("{vocabulary} or more, the vocabulary size");
            return Err(wrong("row stride", row_stride, allowed));
        }
        if values.len() < (num_rows - 1) * row_stride + vocabulary {
            let allowed = format!("{num_rows} rows {row_stride} apart");
            return Err(wrong("number of values", values.len(), allowed));
        }
        Ok(())
    }

    fn check_top(&self, open: &InFlight, top: TopTokens<'_>) -> Result<(), EngineError> {
        let expected = open.num_tops * TOP_K;
        for (what, given) in [
            ("number of top ids", top.ids.len()),
            ("number of top probabilities", top.probabilities.len()),
        ] {
            if given != expected {
                let allowed = format!("{expected}, {TOP_K} for each top row of the plan");
                return Err(wrong(what, given, allowed));
            }
        }
        self.check_ids("top id", top.ids)
    }

    fn check_ids(&self, what: &'static str, ids: &[i32]) -> Result<(), EngineError> {
        let vocabulary = self.config.vocabulary_size;
        match ids.iter().find(|&&id| id >= 0 && id as usize >= vocabulary) {
            Some(&id) => Err(wrong(
                what,
                id as usize,
                format!("0 to {}, or below 0 for none", vocabulary - 1),
            )),
            None => Ok(()),
        }
    }

    fn check_greedy(&self, open: &InFlight) -> Result<(), EngineError> {
        for part in &open.parts {
            let Some(sequence) = self.running.get(&part.key) else {
                continue;
            };
            let samples = match part.work {
                Work::Chunk(rows) => !sequence.sampled_indices(rows).is_empty(),
                Work::Tree(_) => true,
            };
            if samples && !sequence.is_plain_greedy() {
                return Err(EngineError::NotGreedy {
                    handle: sequence.request.handle,
                });
            }
        }
        Ok(())
    }
}

fn wrong(what: &'static str, given: usize, allowed: String) -> EngineError {
    EngineError::Logits {
        what,
        given,
        allowed,
    }
}
