//! Locally typical sampling: tokens whose information is near the expected one.
//!
//! With scores s and probabilities p = exp(s) / Z, a token's information −ln p differs from its
//! expectation H by |−ln p − H| = |E\[s\] − s|: the tokens kept are those whose score is nearest to
//! the mean score.

use std::cmp::Ordering;

use crate::candidate::Candidate;
use crate::exp::exp_of_nonpositive;
use crate::select::LANES;

/// Bins of one thirty-second of a natural unit of distance; the last takes all the rest. Around the mean
/// lie so many tokens that wider ones would leave thousands to sort.
const NUM_BINS: usize = 2048;
const BINS_PER_UNIT: f32 = 32.0;

/// A set of tokens around the mean score.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TypicalSet {
    max: f32,
    /// Mean of score − `max`, at most 0.
    mean: f64,
    /// The member farthest from the mean.
    end: Candidate,
}

impl TypicalSet {
    /// The smallest set of the tokens of `scores` nearest to the mean score whose mass reaches
    /// `share` of theirs; nothing where there are none. `token` maps the index of a score to its token,
    /// `max` is the largest score, and finite; `weights` is overwritten. Scores at minus infinity and
    /// NaN are of no token.
    ///
    /// Masses are summed by bins of similar distance, so only the bin where the sum crosses is
    /// sorted. Of equal distances the greater score is kept first, then the lower id.
    #[inline(always)]
    pub(crate) fn new(
        scores: &[f32],
        token: impl Fn(usize) -> u32,
        max: f32,
        share: f32,
        weights: &mut Vec<f32>,
    ) -> Option<Self> {
        let at = |index: usize| Candidate {
            score: scores[index],
            token: token(index),
        };
        let end = (!scores.is_empty()).then(|| at(0))?;
        weights.clear();
        weights.extend(scores.iter().map(|&score| exp_of_nonpositive(score - max)));
        let (mut totals, mut moments) = ([0.0; LANES], [0.0; LANES]);
        for (weights, scores) in weights.chunks(LANES).zip(scores.chunks(LANES)) {
            let sums = totals.iter_mut().zip(&mut moments);
            for ((total, moment), (&weight, &score)) in sums.zip(weights.iter().zip(scores)) {
                let (weight, below) = (f64::from(weight), score - max);
                *total += weight;
                // What has no weight may be infinitely far.
                *moment += weight * f64::from(if below >= -87.0 { below } else { -87.0 });
            }
        }
        let total: f64 = totals.iter().sum();
        let mut set = Self {
            max,
            mean: moments.iter().sum::<f64>() / total,
            end,
        };
        let mut bins = [0.0_f64; NUM_BINS];
        for (weights, scores) in weights.chunks(LANES).zip(scores.chunks(LANES)) {
            let places = set.bins(scores);
            for (&weight, &place) in weights.iter().zip(&places) {
                bins[place as usize] += f64::from(weight);
            }
        }
        let needed = f64::from(share) * total;
        let mut before = 0.0;
        let mut crossed = 0;
        // The sum by bins may differ from the whole by rounding: the last bin with mass crosses.
        for (index, &mass) in (0..).zip(&bins).filter(|(_, mass)| **mass > 0.0) {
            crossed = index;
            if before + mass >= needed {
                break;
            }
            before += mass;
        }
        let mut inside: Vec<Candidate> = Vec::new();
        for (chunk, first) in scores.chunks(LANES).zip((0..).step_by(LANES)) {
            let places = set.bins(chunk);
            let mut is_crossed = false;
            for &place in &places {
                is_crossed |= place == crossed;
            }
            if is_crossed {
                let members = (first..first + chunk.len()).zip(&places);
                let members = members.filter(|&(_, &place)| place == crossed);
                inside.extend(members.map(|(index, _)| at(index)));
            }
        }
        inside.retain(|one| exp_of_nonpositive(one.score - max) > 0.0);
        inside.sort_unstable_by(|a, b| set.order(*a, *b));
        for one in inside {
            set.end = one;
            before += f64::from(exp_of_nonpositive(one.score - max));
            if before >= needed {
                break;
            }
        }
        Some(set)
    }

    /// Whether `one`, of the tokens the set was made from, belongs to it.
    pub(crate) fn contains(&self, one: Candidate) -> bool {
        self.order(one, self.end).is_le()
    }

    fn order(&self, a: Candidate, b: Candidate) -> Ordering {
        let distance = |one: Candidate| (f64::from(one.score - self.max) - self.mean).abs();
        distance(a).total_cmp(&distance(b)).then(a.order(b))
    }

    /// Bins of up to [`LANES`] scores, by distance from the mean.
    #[inline(always)]
    fn bins(&self, scores: &[f32]) -> [u32; LANES] {
        // Adding 2^23 leaves the nearest integer in the low bits.
        const INTEGER_BITS: f32 = 8_388_608.0;
        let last = (NUM_BINS - 1) as f32;
        let mut bins = [0; LANES];
        for (bin, &score) in bins.iter_mut().zip(scores) {
            // Rounding keeps the order.
            let distance = (f64::from(score - self.max) - self.mean).abs() as f32 * BINS_PER_UNIT;
            let distance = if distance < last { distance } else { last };
            *bin = (distance + INTEGER_BITS).to_bits() & (NUM_BINS - 1) as u32;
        }
        bins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Members by the definition: entropy, distances to it and a whole sort.
    fn by_definition(scores: &[f32], share: f64) -> Vec<u32> {
        let total: f64 = scores.iter().map(|&s| f64::from(s).exp()).sum();
        let information: Vec<f64> = scores.iter().map(|&s| total.ln() - f64::from(s)).collect();
        let entropy: f64 = information.iter().map(|&i| i * (-i).exp()).sum();
        let mut order: Vec<usize> = (0..scores.len()).collect();
        order.sort_by(|&a, &b| {
            let distance = |token: usize| (information[token] - entropy).abs();
            distance(a).total_cmp(&distance(b))
        });
        let mut mass = 0.0;
        let mut members = Vec::new();
        for token in order {
            members.push(token as u32);
            mass += (-information[token]).exp();
            if mass >= share {
                break;
            }
        }
        members.sort_unstable();
        members
    }

    fn members(scores: &[f32], share: f32) -> Vec<u32> {
        let kept: Vec<Candidate> = (0..)
            .zip(scores)
            .map(|(token, &score)| Candidate { score, token })
            .collect();
        let max = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let set = TypicalSet::new(scores, |index| index as u32, max, share, &mut Vec::new());
        let set = set.unwrap();
        let inside = kept.iter().filter(|one| set.contains(**one));
        inside.map(|one| one.token).collect()
    }

    #[test]
    fn members_are_those_of_the_definition() {
        for seed in 0..200_u64 {
            let scores: Vec<f32> = (0..300)
                .map(|token| {
                    let bits = spectrie_types::seed::splitmix(seed << 32 | token);
                    (bits >> 40) as f32 / (1 << 24) as f32 * 9.0 + 10.0
                })
                .collect();
            for share in [0.01, 0.2, 0.5, 0.9, 0.99] {
                let expected = by_definition(&scores, f64::from(share));
                assert_eq!(members(&scores, share), expected, "seed {seed}");
            }
        }
    }

    #[test]
    fn the_likeliest_token_may_be_atypical() {
        // One token of mass 0.4 over many of 0.6: the many are nearer to the mean.
        let mut scores = vec![0.0_f32; 1_000];
        scores[0] = (1_000.0_f32 * 2.0 / 3.0).ln();
        let inside = members(&scores, 0.3);
        assert!(!inside.contains(&0));
        assert_eq!(inside, (1..=500).collect::<Vec<u32>>());
    }

    #[test]
    fn ties_are_broken_by_score_then_id_and_far_tokens_never_enter() {
        assert_eq!(members(&[0.0; 4], 0.5), [0, 1]);
        assert_eq!(members(&[5.0, -200.0, f32::MIN], 1.0), [0]);
        assert!(TypicalSet::new(&[], |_| 0, 0.0, 0.5, &mut Vec::new()).is_none());
    }
}
