//! The sampled rows of one request, and what is drawn from them.

use spectrie_sampling::{GrammarEnd, NoToken, Sampler};

use super::sequence::{Drawn, Sequence};
use crate::forward::{BANNED, Verdicts};

/// Why a row gave no token.
#[derive(Debug)]
pub(crate) enum NotDrawn {
    /// It has none.
    Row(NoToken),
    /// The answer goes no further in its grammar.
    Grammar(GrammarEnd),
}

impl From<NoToken> for NotDrawn {
    fn from(error: NoToken) -> Self {
        Self::Row(error)
    }
}

/// The rows of a plan that give one request's tokens.
pub(crate) struct SampledRows<'a> {
    pub(crate) sampler: &'a mut Sampler,
    pub(crate) verdicts: Verdicts<'a>,
    pub(crate) vocabulary_size: usize,
    /// Index of its first row among those of the verdicts.
    pub(crate) first: usize,
    /// Whether drawn tokens after draft nodes are of no use.
    pub(crate) is_root_alone: bool,
    /// Whether accepted rows are in their places already.
    pub(crate) is_compacted: bool,
}

impl SampledRows<'_> {
    /// Whether the token after a draft node may be read.
    pub(crate) fn has_nodes(&self) -> bool {
        !self.is_root_alone || !matches!(self.verdicts, Verdicts::Drawn { .. })
    }

    /// The next token of `sequence`, drawn from its `row`-th sampled row.
    pub(crate) fn draw(&mut self, sequence: &mut Sequence, row: usize) -> Result<Drawn, NotDrawn> {
        sequence.draws.prepare().map_err(NotDrawn::Grammar)?;
        match self.verdicts {
            Verdicts::Logits(rows) => {
                let logits = rows.row(self.first + row, self.vocabulary_size);
                let token = self
                    .sampler
                    .draw(logits, &sequence.draws.next_draw(sequence.tokens.len()));
                let token = token.map_err(|error| not_drawn(error, sequence))?;
                let num_top = sequence.draws.num_top();
                let logprobs = num_top.map(|num| self.sampler.logprobs(logits, token, num));
                Ok(Drawn {
                    token,
                    logprobs: logprobs.transpose()?,
                })
            }
            Verdicts::Tokens(tokens) => Ok(Drawn {
                token: u32::try_from(tokens[self.first + row]).map_err(|_| NoToken::Model)?,
                logprobs: None,
            }),
            Verdicts::Drawn { tokens, .. } => {
                let given = tokens[self.first + row];
                let token = u32::try_from(given).map_err(|_| match given {
                    BANNED => not_drawn(NoToken::Banned, sequence),
                    _ => NotDrawn::Row(NoToken::Model),
                });
                Ok(Drawn {
                    token: token?,
                    logprobs: None,
                })
            }
        }
    }

    /// Notes what the model thought of the prompt's tokens at `indices`, read from the first sampled
    /// rows.
    pub(crate) fn read_prompt(
        &mut self,
        sequence: &mut Sequence,
        indices: std::ops::Range<usize>,
    ) -> Result<(), NoToken> {
        let (Verdicts::Logits(rows), Some(num_top)) =
            (self.verdicts, sequence.draws.num_prompt_top())
        else {
            return Ok(());
        };
        for (row, index) in indices.enumerate() {
            let logits = rows.row(self.first + row, self.vocabulary_size);
            let token = sequence.tokens[index];
            sequence
                .draws
                .push_prompt_logprobs(self.sampler.logprobs(logits, token, num_top)?);
        }
        Ok(())
    }
}

/// What it means that the options of `sequence` left no token, or its logits none.
fn not_drawn(error: NoToken, sequence: &Sequence) -> NotDrawn {
    match error {
        // All that the grammar allows is banned: it cannot go on.
        NoToken::Banned if sequence.draws.has_grammar() => NotDrawn::Grammar(GrammarEnd::Complete),
        other => NotDrawn::Row(other),
    }
}
