//! The likeliest tokens of a row, found without sorting the vocabulary.

use std::cmp::Ordering;

/// Sizes tried in turn when a mass must be covered; then the whole row.
const SIZES: [usize; 2] = [64, 1024];

/// A token and its scaled logit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) score: f32,
    pub(crate) token: u32,
}

impl Candidate {
    /// Likeliest first, ties by the lowest token id. Scores are never NaN here.
    pub(crate) fn order(self, other: Self) -> Ordering {
        other
            .score
            .total_cmp(&self.score)
            .then(self.token.cmp(&other.token))
    }
}

/// Fills `kept` with the `count` likeliest tokens of `row`, likeliest first.
///
/// Tokens at minus infinity or NaN are left out. Costs one pass and a few partial selections.
pub(crate) fn likeliest(row: &[f32], count: usize, kept: &mut Vec<Candidate>) {
    kept.clear();
    let room = (2 * count).max(1024);
    let mut floor = f32::NEG_INFINITY;
    for (token, &score) in row.iter().enumerate() {
        // A later token of equal score loses its tie, so only a greater one can enter.
        if score > floor {
            kept.push(Candidate {
                score,
                token: token as u32,
            });
            if kept.len() >= room {
                floor = select(kept, count);
            }
        }
    }
    if kept.len() > count {
        select(kept, count);
    }
    kept.sort_unstable_by(|a, b| a.order(*b));
}

/// Fills `kept` with the smallest set of likeliest tokens of `row` whose mass reaches `share` of
/// the row's, likeliest first. `max` is the largest score.
pub(crate) fn nucleus(row: &[f32], max: f32, share: f32, kept: &mut Vec<Candidate>) {
    let needed = f64::from(share) * mass(row, max);
    for size in SIZES.into_iter().chain([row.len()]) {
        likeliest(row, size.min(row.len()), kept);
        let cut = cut_at_mass(kept, max, needed);
        if let Some(cut) = cut {
            kept.truncate(cut);
            return;
        }
        if size >= row.len() {
            return;
        }
    }
}

/// Cuts `kept` (likeliest first) to the smallest head whose mass reaches `share` of its whole.
pub(crate) fn cut_to_share(kept: &mut Vec<Candidate>, max: f32, share: f32) {
    let total: f64 = kept
        .iter()
        .map(|one| f64::from(exp_of_nonpositive(one.score - max)))
        .sum();
    if let Some(cut) = cut_at_mass(kept, max, f64::from(share) * total) {
        kept.truncate(cut);
    }
}

/// Sum of exp(score − max) over a row, in a fixed order.
pub(crate) fn mass(row: &[f32], max: f32) -> f64 {
    let mut total = 0.0;
    for chunk in row.chunks(64) {
        let mut lanes = [0.0_f32; 64];
        for (lane, &score) in lanes.iter_mut().zip(chunk) {
            *lane = exp_of_nonpositive(score - max);
        }
        total += lanes.iter().map(|&lane| f64::from(lane)).sum::<f64>();
    }
    total
}

fn cut_at_mass(kept: &[Candidate], max: f32, needed: f64) -> Option<usize> {
    let mut sum = 0.0;
    for (index, one) in kept.iter().enumerate() {
        sum += f64::from(exp_of_nonpositive(one.score - max));
        if sum >= needed {
            return Some(index + 1);
        }
    }
    None
}

/// Keeps the `count` likeliest of `kept`, unsorted; gives the least score kept.
fn select(kept: &mut Vec<Candidate>, count: usize) -> f32 {
    if count == 0 || kept.len() <= count {
        kept.truncate(count);
        return f32::NEG_INFINITY;
    }
    kept.select_nth_unstable_by(count - 1, |a, b| a.order(*b));
    kept.truncate(count);
    kept[count - 1].score
}

/// exp(x) for x ≤ 0 within 2e-7 relative; 0 below −87, for NaN and for minus infinity.
///
/// Written so that the compiler turns a loop over it into vector code, and without library calls,
/// so that its bits are the same on every machine.
#[inline]
fn exp_of_nonpositive(x: f32) -> f32 {
    // Adding and taking away 1.5 * 2^23 rounds to the nearest integer.
    const ROUNDER: f32 = 12_582_912.0;
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let inside = if x >= -87.0 { x } else { -87.0 };
    let power = (inside * std::f32::consts::LOG2_E + ROUNDER) - ROUNDER;
    let rest = inside - power * LN2_HIGH - power * LN2_LOW;
    let mut value = 1.987_569_1e-4;
    for coefficient in [
        1.398_199_9e-3,
        8.333_452e-3,
        4.166_579_6e-2,
        1.666_666_5e-1,
        0.5,
    ] {
        value = value * rest + coefficient;
    }
    let value = value * rest * rest + rest + 1.0;
    let scale = f32::from_bits(((power as i32 + 127) as u32) << 23);
    if x >= -87.0 { value * scale } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(count: usize) -> Vec<f32> {
        (0..count as u64)
            .map(|i| (crate::noise::splitmix(i) % 977) as f32 / 50.0 - 10.0)
            .collect()
    }

    #[test]
    fn exponential_is_accurate_and_zero_far_below() {
        for step in 0..80_000 {
            let x = -(step as f32) / 1_000.0;
            let exact = f64::from(x).exp();
            assert!(
                (f64::from(exp_of_nonpositive(x)) / exact - 1.0).abs() < 3e-7,
                "{x}"
            );
        }
        assert_eq!(exp_of_nonpositive(0.0).to_bits(), 1.0_f32.to_bits());
        for x in [-88.0, f32::NEG_INFINITY, f32::NAN] {
            assert_eq!(exp_of_nonpositive(x).to_bits(), 0);
        }
    }

    #[test]
    fn likeliest_equals_a_full_sort_with_ties_by_token() {
        let row = scores(5_000);
        let mut sorted: Vec<Candidate> = row
            .iter()
            .enumerate()
            .map(|(token, &score)| Candidate {
                score,
                token: token as u32,
            })
            .collect();
        sorted.sort_by(|a, b| a.order(*b));
        let mut kept = Vec::new();
        for count in [1, 2, 63, 64, 700, 1_024, 4_999, 5_000] {
            likeliest(&row, count, &mut kept);
            assert_eq!(kept, sorted[..count]);
        }
    }

    #[test]
    fn nucleus_is_the_smallest_head_with_the_mass() {
        let row = scores(5_000);
        let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let total = mass(&row, max);
        for share in [0.01, 0.5, 0.95, 0.999, 0.999_999] {
            let mut kept = Vec::new();
            nucleus(&row, max, share, &mut kept);
            let sum = |kept: &[Candidate]| -> f64 {
                kept.iter()
                    .map(|one| f64::from(one.score - max).exp())
                    .sum()
            };
            let needed = f64::from(share) * total;
            assert!(sum(&kept) > needed - 1e-3);
            assert!(sum(&kept[..kept.len() - 1]) < needed + 1e-3);
        }
    }
}
