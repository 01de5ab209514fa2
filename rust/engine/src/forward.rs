//! What a forward returns.

use spectrie_trie::TokenId;
use spectrie_types::sizes::TOP_K;

/// The results of a forward.
#[derive(Debug, Clone, Copy)]
pub struct StepResults<'a> {
    /// What the model predicts after each sampled row.
    pub verdicts: Verdicts<'a>,
    /// Its likeliest tokens after each top row; `None` recycles nothing.
    pub top: Option<TopTokens<'a>>,
    /// Whether the forward has brought rows of trees that its tokens accept to where plain decoding would
    /// have put them, except where logits decide. Otherwise the next plan orders that.
    pub compacted: bool,
}

/// What the model predicts after each sampled row of a plan.
#[derive(Debug, Clone, Copy)]
pub enum Verdicts<'a> {
    /// The logits of each row.
    Logits(LogitRows<'a>),
    /// The likeliest token of each row, below 0 where no logit is finite.
    Tokens(&'a [i32]),
    /// The token that [`Sampler`](spectrie_sampling::Sampler) draws from each row, by the options of
    /// its request and the tokens on its own path; [`BANNED`] where those leave none, otherwise
    /// below 0 where no logit is finite.
    Drawn {
        /// One of each row; those of rows whose logits are wanted are not read.
        tokens: &'a [i32],
        /// The logits of [`Plan::logit_samples`](crate::Plan::logit_samples).
        logits: LogitRows<'a>,
    },
}

impl<'a> Verdicts<'a> {
    /// Drawn tokens of a plan that wants no logits.
    pub fn drawn(tokens: &'a [i32]) -> Self {
        let logits = LogitRows::default();
        Self::Drawn { tokens, logits }
    }
}

/// Rows of logits, `row_stride` values apart.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogitRows<'a> {
    /// The rows, from the first value of the first to the last value of the last.
    pub values: &'a [f32],
    /// Number of rows.
    pub num_rows: usize,
    /// Distance between the starts of two rows, in values.
    pub row_stride: usize,
}

impl<'a> LogitRows<'a> {
    /// One row.
    pub(crate) fn row(&self, row: usize, vocabulary_size: usize) -> &'a [f32] {
        &self.values[row * self.row_stride..][..vocabulary_size]
    }
}

/// In place of a drawn token, where the request's options leave none.
pub const BANNED: i32 = -2;

impl<'a> From<Verdicts<'a>> for StepResults<'a> {
    fn from(verdicts: Verdicts<'a>) -> Self {
        Self {
            verdicts,
            top: None,
            compacted: false,
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

    /// Passes on the tokens and probabilities after one row.
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

/// The answers of a level of a drafter.
#[derive(Debug, Clone, Copy)]
pub struct DraftAnswers<'a> {
    /// Eight likeliest tokens of each row, descending; below 0 = none.
    pub ids: &'a [i32],
    /// Their probabilities.
    pub probabilities: &'a [f32],
    /// Log-probabilities of the tokens that were to be scored, in their order; one that is not known is
    /// not finite.
    pub scored: &'a [f32],
}
