//! A drafter of a model that knows a token and its position alone: right about one token, wrong about the next.

use spectrie_engine::DraftPlan;
use spectrie_types::sizes::TOP_K;

use super::head::Answers;

/// Answers a level: where token and position add up to an even number the likeliest tokens and their
/// probabilities, elsewhere the least likely ones, as if they were sure.
pub(super) fn answer<const N: usize>(
    plan: &DraftPlan,
    logits: impl Fn(u32, u32) -> [f32; N],
) -> Answers {
    let mut answers = Answers {
        ids: Vec::new(),
        probabilities: Vec::new(),
        scored: Vec::new(),
    };
    for (row, (&token, &position)) in plan.row_token.iter().zip(&plan.row_position).enumerate() {
        let logits = logits(token as u32, position as u32);
        let total: f32 = logits.iter().map(|logit| logit.exp()).sum();
        let mut order: Vec<usize> = (0..N).collect();
        order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
        let is_right = (token + position) % 2 == 0;
        if !is_right {
            order.reverse();
        }
        for (rank, &id) in order[..TOP_K].iter().enumerate() {
            answers.ids.push(id as i32);
            answers.probabilities.push(if is_right {
                logits[id].exp() / total
            } else {
                0.5 / (rank + 1) as f32
            });
        }
        let named = plan.scored_indptr[row] as usize..plan.scored_indptr[row + 1] as usize;
        let logs = plan.scored_token[named].iter();
        answers
            .scored
            .extend(logs.map(|&id| logits[id as usize] - total.ln()));
    }
    answers
}
