//! What follows the target's head in some drafters: its logits in another form, and a choice among the likeliest
//! tokens by the token before them (DFLASH 2).

use crate::decoder::TOP_K;
use crate::draft::kinds::Size;
use crate::draft::naming::low_rank::greatest;
use crate::matmul::Linear;
use crate::simd::Dtype;

/// The target's head, and what is made of its logits.
pub struct Shaped<E: Dtype> {
    /// What they are multiplied by.
    pub multiplier: f32,
    /// What they come no further than: `tanh(logit / cap) * cap`.
    pub cap: Option<f32>,
    /// Chooses among the likeliest.
    pub selector: Option<Selector<E>>,
}

/// Adds to the logits of the likeliest tokens what they are worth behind the token before them: the sum over a
/// rank of `predecessor * projection(state) * successor`. Others count for nothing.
pub struct Selector<E: Dtype> {
    /// Product from the state to the rank.
    pub projection: Linear<E>,
    /// `[vocabulary, rank]`, of the token before.
    pub predecessor: Vec<E>,
    /// `[vocabulary, rank]`, of the token itself.
    pub successor: Vec<E>,
    /// Tokens among which it chooses.
    pub candidates: usize,
}

impl<E: Dtype> Shaped<E> {
    pub(crate) fn sizes(&self, hidden: usize, vocabulary: usize) -> Vec<Size> {
        let Some(selector) = &self.selector else {
            return Vec::new();
        };
        let table = vocabulary * selector.rank();
        vec![
            (
                "input of the selector",
                selector.projection.in_features(),
                hidden,
            ),
            (
                "predecessors of the selector",
                selector.predecessor.len(),
                table,
            ),
            (
                "successors of the selector",
                selector.successor.len(),
                table,
            ),
        ]
    }

    /// Puts logits into their form.
    pub(crate) fn shape(&self, logits: &mut [f32]) {
        for logit in logits {
            *logit *= self.multiplier;
            if let Some(cap) = self.cap {
                *logit = (*logit / cap).tanh() * cap;
            }
        }
    }
}

impl<E: Dtype> Selector<E> {
    /// Numbers of a token in each table.
    pub(crate) fn rank(&self) -> usize {
        self.projection.out_features()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.projection.bytes()
            + size_of_val(self.predecessor.as_slice())
            + size_of_val(self.successor.as_slice())
    }

    /// What a token counts behind another one.
    fn score(&self, logit: f32, before: usize, projected: &[E], token: usize) -> f32 {
        let rank = self.rank();
        let parts = self.predecessor[before * rank..][..rank]
            .iter()
            .zip(projected)
            .zip(&self.successor[token * rank..][..rank]);
        let sum: f32 = parts
            .map(|((before, projected), token)| {
                before.to_f32() * projected.to_f32() * token.to_f32()
            })
            .sum();
        logit + sum
    }

    /// An answer behind the token `before`. A token that is not among the candidates has the probability that it
    /// would have as one more of them.
    pub(crate) fn answer(
        &self,
        logits: &[f32],
        (before, projected): (usize, &[E]),
        asked: &[i32],
        (ids, probabilities): (&mut [i32], &mut [f32]),
        scores: &mut [f32],
    ) {
        ids.fill(-1);
        probabilities.fill(0.0);
        scores.fill(f32::NEG_INFINITY);
        let score = |token: usize| self.score(logits[token], before, projected, token);
        let mut found: Vec<(usize, f32)> = greatest(logits, self.candidates)
            .into_iter()
            .map(|token| (token, score(token)))
            .collect();
        found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let Some(&(_, best)) = found.first().filter(|(_, score)| score.is_finite()) else {
            return;
        };
        let weight = |score: f32| f64::from((score - best).exp());
        let total: f64 = found.iter().map(|&(_, score)| weight(score)).sum();
        for (index, &(token, score)) in found.iter().take(TOP_K).enumerate() {
            ids[index] = token as i32;
            probabilities[index] = (weight(score) / total) as f32;
        }
        for (to, &token) in scores.iter_mut().zip(asked) {
            let token = token as usize;
            let own = score(token);
            let is_candidate = found.iter().any(|&(one, _)| one == token);
            let all = if is_candidate {
                total
            } else {
                total + weight(own)
            };
            *to = (f64::from(own - best) - all.ln()) as f32;
        }
    }
}
