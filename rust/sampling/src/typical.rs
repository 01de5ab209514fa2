//! Locally typical sampling: tokens whose information is near the expected one.
//!
//! With scores s and probabilities p = exp(s) / Z, a token's information −ln p differs from its
//! expectation H by |−ln p − H| = |E\[s\] − s|: the tokens kept are those whose score is nearest to
//! the mean score.

use crate::candidate::Candidate;
use crate::exp::exp_of_nonpositive;
use crate::mass::{needed, rounded};
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
    /// Place and token of the member that comes last.
    end: (u32, u32),
}

impl TypicalSet {
    /// The smallest set of the tokens of `scores` nearest to the mean score whose mass reaches what
    /// is [`needed`] for `share` of theirs; nothing where there are none. `token` maps the index of
    /// a score to its token, `max` is the largest score, and finite; `masses` is overwritten. Scores
    /// at minus infinity and NaN are of no token.
    ///
    /// Masses are summed by bins of similar distance, so only the bin where the sum crosses is
    /// sorted. Distances are rounded to 32 bits; of equal ones, tokens above the mean come first,
    /// then the lowest id.
    #[inline(always)]
    pub(crate) fn new(
        scores: &[f32],
        token: impl Fn(usize) -> u32,
        max: f32,
        share: f32,
        masses: &mut Vec<u64>,
    ) -> Option<Self> {
        if scores.is_empty() {
            return None;
        }
        masses.clear();
        let (mut totals, mut moments) = ([0; LANES], [0; LANES]);
        let (chunks, rest) = scores.as_chunks::<LANES>();
        let mut last = [f32::NEG_INFINITY; LANES];
        last[..rest.len()].copy_from_slice(rest);
        for scores in chunks.iter().chain([&last]) {
            add_moments(
                &scores.map(|score| score - max),
                &mut totals,
                &mut moments,
                masses,
            );
        }
        let total = totals.iter().sum();
        let mut set = Self {
            max,
            mean: -(moments.iter().sum::<u64>() as f64 / total as f64),
            end: (0, 0),
        };
        let mut bins = [0; NUM_BINS];
        for (masses, scores) in masses.chunks(LANES).zip(scores.chunks(LANES)) {
            let places = set.bins(scores);
            for (&mass, &place) in masses.iter().zip(&places) {
                bins[place as usize] += mass;
            }
        }
        let needed = needed(share, total);
        let mut before = 0;
        let mut crossed = 0;
        for (index, &mass) in (0..).zip(&bins) {
            crossed = index;
            if before + mass >= needed {
                break;
            }
            before += mass;
        }
        let mut inside: Vec<(u32, u32, u64)> = Vec::new();
        for (chunk, first) in scores.chunks(LANES).zip((0..).step_by(LANES)) {
            let places = set.bins(chunk);
            let mut is_crossed = false;
            for &place in &places {
                is_crossed |= place == crossed;
            }
            if is_crossed {
                let members = (first..first + chunk.len()).zip(&places);
                let members =
                    members.filter(|&(index, &place)| place == crossed && masses[index] > 0);
                inside.extend(
                    members
                        .map(|(index, _)| (set.place(scores[index]), token(index), masses[index])),
                );
            }
        }
        inside.sort_unstable();
        for (place, token, mass) in inside {
            set.end = (place, token);
            before += mass;
            if before >= needed {
                break;
            }
        }
        Some(set)
    }

    /// Whether `one`, of the tokens the set was made from, belongs to it.
    pub(crate) fn contains(&self, one: Candidate) -> bool {
        (self.place(one.score), one.token) <= self.end
    }

    /// Where a score stands among the nearest to the mean: the bits of its distance, then whether it
    /// lies below.
    #[inline(always)]
    fn place(&self, score: f32) -> u32 {
        let above = f64::from(score - self.max) - self.mean;
        (above.abs() as f32).to_bits() << 1 | u32::from(above < 0.0)
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

/// Adds masses, and moments: a token's weight times the distance of its score from the greatest, in
/// the unit of masses. A moment is the product of two 32-bit numbers, exact in 64 bits, then rounded
/// like a mass.
#[inline(always)]
fn add_moments(
    below: &[f32; LANES],
    totals: &mut [u64; LANES],
    moments: &mut [u64; LANES],
    masses: &mut Vec<u64>,
) {
    let mut weights = [0.0; LANES];
    for (weight, &below) in weights.iter_mut().zip(below) {
        *weight = exp_of_nonpositive(below);
    }
    let mut rounded_masses = [0; LANES];
    for lane in 0..LANES {
        // What has no weight may be infinitely far.
        let inside = if below[lane] >= -87.0 {
            below[lane]
        } else {
            -87.0
        };
        let weight = f64::from(weights[lane]);
        rounded_masses[lane] = rounded(weight);
        totals[lane] += rounded_masses[lane];
        moments[lane] += rounded(weight * f64::from(-inside));
    }
    masses.extend_from_slice(&rounded_masses);
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
    fn the_order_of_a_row_decides_nothing() {
        for seed in 0..50_u64 {
            let order = |token: u64| spectrie_types::seed::splitmix(seed << 32 | token);
            let score = |token: u64| -(order(token) as u32 as f32 / 1e8).sqrt();
            let mut tokens: Vec<u64> = (0..3_000).collect();
            let row: Vec<f32> = tokens.iter().map(|&token| score(token)).collect();
            tokens.sort_unstable_by_key(|&token| order(token));
            let other: Vec<f32> = tokens.iter().map(|&token| score(token)).collect();
            for share in [0.1, 0.5, 0.9, 0.999] {
                let one = members(&row, share);
                let mut another: Vec<u32> = members(&other, share)
                    .iter()
                    .map(|&index| tokens[index as usize] as u32)
                    .collect();
                another.sort_unstable();
                assert_eq!(one, another);
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
