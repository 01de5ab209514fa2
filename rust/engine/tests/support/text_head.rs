//! A drafter that knows parts of the texts that a simulated model writes.

use spectrie_engine::{DraftPlan, DrafterInfo};
use spectrie_types::seed::splitmix;
use spectrie_types::sizes::TOP_K;

use super::head::{Answers, drafter};

/// See the module.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TextHead {
    /// What the first level of one row takes; a later one takes half of that, and 24 rows twice as long.
    pub(crate) first_ms: f64,
    /// Whether it knows the token at a position of any text.
    pub(crate) knows: fn(usize) -> bool,
}

impl TextHead {
    pub(crate) fn info(self) -> DrafterInfo {
        drafter(self.first_ms)
    }

    /// What a level takes.
    pub(crate) fn milliseconds(self, level: &DraftPlan) -> f64 {
        let one = self.first_ms / if level.level > 1 { 2.0 } else { 1.0 };
        one * (1.0 + (level.num_rows() - 1) as f64 / 23.0)
    }

    /// Answers to a level of requests whose texts are told by their first pages.
    pub(crate) fn answer<'a>(
        self,
        level: &DraftPlan,
        text_of: impl Fn(i32) -> &'a [u32],
        vocabulary: usize,
    ) -> Answers {
        let mut answers = Answers {
            ids: Vec::new(),
            probabilities: Vec::new(),
            scored: vec![-6.0; level.scored_token.len()],
        };
        for row in 0..level.num_rows() {
            let first = level.page_indptr[level.row_request[row] as usize] as usize;
            let text = text_of(level.page_ids[first]);
            let at = level.row_position[row] as usize;
            let is_on_text = text.get(at) == Some(&(level.row_token[row] as u32));
            let next = text.get(at + 1).filter(|_| is_on_text);
            let noise = |rank: u64| (splitmix(rank << 32 | at as u64) % vocabulary as u64) as i32;
            let known = next.filter(|_| (self.knows)(at + 1));
            answers
                .ids
                .push(known.map_or(noise(0), |&next| next as i32));
            answers.ids.extend((1..TOP_K as u64).map(noise));
            // It does not know what it knows.
            answers.probabilities.push(0.5);
            answers.probabilities.extend([0.02; TOP_K - 1]);
        }
        answers
    }
}
