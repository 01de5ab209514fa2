//! Log-probabilities of tokens under the model's own distribution.

use crate::candidate::Candidate;
use crate::exp::exp_of_nonpositive;
use crate::ln::ln;
use crate::select::likeliest;

/// What the model thought of one token: natural logarithms of probabilities at temperature 1,
/// before bias, penalties and masks.
///
/// Made from the row of logits alone in a fixed order, so that the bits do not depend on the batch.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogprobs {
    /// The token.
    pub token: u32,
    /// Its log-probability; minus infinity where its logit is not finite.
    pub logprob: f32,
    /// The likeliest tokens with theirs, likeliest first, ties by the lowest id; as many as asked
    /// for and have a finite logit.
    pub top: Vec<(u32, f32)>,
}

/// The log-probability of `token` under `logits`, and those of the `num_top` likeliest tokens.
/// `best` is the likeliest of `logits`; `scratch` is overwritten.
#[inline(always)]
pub(crate) fn logprobs(
    logits: &[f32],
    best: Candidate,
    token: u32,
    num_top: u32,
    scratch: &mut Vec<Candidate>,
) -> TokenLogprobs {
    let log_total = log_sum(logits, best.score);
    let logprob = |score: f32| {
        if score.is_finite() {
            (f64::from(score) - f64::from(best.score) - log_total) as f32
        } else {
            f32::NEG_INFINITY
        }
    };
    scratch.clear();
    match num_top {
        0 => {}
        1 => scratch.push(best),
        _ => likeliest(logits, num_top as usize, scratch),
    }
    TokenLogprobs {
        token,
        logprob: logprob(logits[token as usize]),
        top: scratch
            .iter()
            .map(|one| (one.token, logprob(one.score)))
            .collect(),
    }
}

/// Sums of which each takes every such logit.
const CHAINS: usize = 32;

/// Logarithm of the sum of exp(logit − max), summed in interleaved chains, then these in order.
#[inline(always)]
fn log_sum(logits: &[f32], max: f32) -> f64 {
    let mut sums = [0.0_f64; CHAINS];
    let (chunks, rest) = logits.as_chunks::<CHAINS>();
    for chunk in chunks {
        add_weights(&mut sums, chunk, max);
    }
    add_weights(&mut sums, rest, max);
    ln(sums.iter().sum())
}

#[inline(always)]
fn add_weights(sums: &mut [f64; CHAINS], logits: &[f32], max: f32) {
    for (sum, &logit) in sums.iter_mut().zip(logits) {
        *sum += f64::from(exp_of_nonpositive(logit - max));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::argmax::argmax;

    fn of(logits: &[f32], token: u32, num_top: u32) -> TokenLogprobs {
        let best = argmax(logits).unwrap();
        logprobs(logits, best, token, num_top, &mut Vec::new())
    }

    #[test]
    fn logprobs_are_the_log_softmax_with_ties_to_the_lowest_id() {
        let mut row: Vec<f32> = (0..1_003_u64)
            .map(|i| (spectrie_types::seed::splitmix(i) % 4_001) as f32 / 100.0 - 25.0)
            .collect();
        row[17] = 16.0;
        row[900] = 16.0;
        let total: f64 = row.iter().map(|&x| f64::from(x).exp()).sum();
        let exact = |token: u32| f64::from(row[token as usize]) - total.ln();
        for token in [0, 17, 500, 1_002] {
            let given = of(&row, token, 20);
            assert_eq!(given.token, token);
            assert!((f64::from(given.logprob) - exact(token)).abs() < 2e-6);
            assert_eq!(given.top.len(), 20);
            assert_eq!((given.top[0].0, given.top[1].0), (17, 900));
            assert!(given.top.is_sorted_by(|a, b| a.1 >= b.1));
            for (token, logprob) in given.top {
                assert!((f64::from(logprob) - exact(token)).abs() < 2e-6);
            }
        }
        assert_eq!(of(&row, 3, 1).top, of(&row, 3, 5).top[..1]);
        assert_eq!(of(&row, 3, 0).top, []);
    }

    #[test]
    fn tokens_without_a_finite_logit_have_no_probability_and_no_place() {
        let row = [1.0, f32::NEG_INFINITY, 1.0, f32::NAN];
        let given = of(&row, 1, 20);
        assert!(given.logprob.is_infinite() && given.logprob < 0.0);
        let half = -std::f32::consts::LN_2;
        assert_eq!(given.top, [(0, half), (2, half)]);
    }
}
