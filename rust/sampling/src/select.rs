//! The likeliest tokens of a row, found without sorting the vocabulary.

use crate::argmax::greatest;
use crate::candidate::Candidate;
use crate::mass::{mass, masses_of, needed};

/// Bins of one eighth of a natural unit below the greatest score; the last takes all the rest.
const NUM_BINS: usize = 512;
const BINS_PER_UNIT: f32 = 8.0;

/// Scores weighed at once.
pub(crate) const LANES: usize = 64;

/// Fills `kept` with the `count` likeliest tokens of `row`, likeliest first.
///
/// Tokens at minus infinity or NaN are left out. Costs one pass and a few partial selections.
#[inline(always)]
pub(crate) fn likeliest(row: &[f32], count: usize, kept: &mut Vec<Candidate>) {
    kept.clear();
    let room = (2 * count).max(1024);
    let mut floor = f32::NEG_INFINITY;
    for (block, first) in row.chunks(LANES).zip((0..).step_by(LANES)) {
        // A later token of equal score loses its tie, so only a greater one can enter.
        if greatest(block) > floor {
            for (token, &score) in (first..).zip(block) {
                if score > floor {
                    kept.push(Candidate { score, token });
                    if kept.len() >= room {
                        floor = select(kept, count);
                    }
                }
            }
        }
    }
    if kept.len() > count {
        select(kept, count);
    }
    kept.sort_unstable_by(|a, b| a.order(*b));
}

/// Fills `kept` with the tokens of `row` that fit, by id; none below `floor` does.
#[inline(always)]
pub(crate) fn gather(
    row: &[f32],
    floor: f32,
    kept: &mut Vec<Candidate>,
    fits: impl Fn(Candidate) -> bool,
) {
    kept.clear();
    for (block, first) in row.chunks(LANES).zip((0..).step_by(LANES)) {
        if greatest(block) >= floor {
            let tokens = (first..).zip(block);
            let all = tokens.map(|(token, &score)| Candidate { score, token });
            kept.extend(all.filter(|&one| fits(one)));
        }
    }
}

/// The last of the smallest set of likeliest tokens of `row` whose mass reaches what is
/// [`needed`] for `share` of the row's. `max` is the largest score.
///
/// Masses are summed by bins of similar scores, so only the bin where the sum crosses is sorted.
#[inline(always)]
pub(crate) fn nucleus_end(
    row: &[f32],
    max: f32,
    share: f32,
    kept: &mut Vec<Candidate>,
) -> Candidate {
    let mut bins = [0_u64; NUM_BINS];
    let (chunks, rest) = row.as_chunks::<LANES>();
    let mut last = [f32::NEG_INFINITY; LANES];
    last[..rest.len()].copy_from_slice(rest);
    let (mut below, mut masses, mut places) = ([0.0; LANES], [0; LANES], [0; LANES]);
    for scores in chunks.iter().chain([&last]) {
        for lane in 0..LANES {
            below[lane] = scores[lane] - max;
            places[lane] = bin(scores[lane], max) as u32;
        }
        masses_of(&below, &mut masses);
        for (&mass, &place) in masses.iter().zip(&places) {
            bins[place as usize] += mass;
        }
    }
    let needed = needed(share, bins.iter().sum());
    let mut before = 0;
    let mut crossed = 0;
    for (index, &mass) in bins.iter().enumerate() {
        crossed = index;
        if before + mass >= needed {
            break;
        }
        before += mass;
    }
    kept.clear();
    let tokens = row.iter().enumerate();
    let inside =
        tokens.filter(|&(_, &score)| score > f32::NEG_INFINITY && bin(score, max) == crossed);
    kept.extend(inside.map(|(token, &score)| Candidate {
        score,
        token: token as u32,
    }));
    kept.sort_unstable_by(|a, b| a.order(*b));
    kept[count_to_mass(kept, max, needed - before) - 1]
}

/// Nearest bin of a score. Adding 2^23 leaves the integer in the low bits, which vector code does
/// faster than a conversion; NaN counts as far below.
#[inline(always)]
fn bin(score: f32, max: f32) -> usize {
    const INTEGER_BITS: f32 = 8_388_608.0;
    let last = (NUM_BINS - 1) as f32;
    let below = (max - score) * BINS_PER_UNIT;
    let below = if below < last { below } else { last };
    (below + INTEGER_BITS).to_bits() as usize & (NUM_BINS - 1)
}

/// Cuts `kept` (likeliest first) to the smallest head whose mass reaches what is [`needed`] for
/// `share` of its whole.
pub(crate) fn cut_to_share(kept: &mut Vec<Candidate>, max: f32, share: f32) {
    let total = kept.iter().map(|one| mass(one.score - max)).sum();
    let count = count_to_mass(kept, max, needed(share, total));
    kept.truncate(count);
}

/// How many of `kept`, from the first on, reach the mass `needed`; at most all.
fn count_to_mass(kept: &[Candidate], max: f32, needed: u64) -> usize {
    let mut sum = 0;
    let reaches = |one: &Candidate| {
        sum += mass(one.score - max);
        sum >= needed
    };
    let before = kept.iter().position(reaches);
    before.map_or(kept.len(), |before| before + 1)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exp::exp_of_nonpositive;

    fn scores(count: usize) -> Vec<f32> {
        (0..count as u64)
            .map(|i| (spectrie_types::seed::splitmix(i) % 977) as f32 / 50.0 - 10.0)
            .collect()
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
    fn nucleus_ends_at_the_smallest_head_with_the_mass() {
        let row = scores(5_000);
        let mut sorted = Vec::new();
        likeliest(&row, row.len(), &mut sorted);
        let max = sorted[0].score;
        let weight = |one: &Candidate| f64::from(one.score - max).exp();
        let total: f64 = sorted.iter().map(weight).sum();
        for share in [1e-9, 0.01, 0.5, 0.95, 0.999, 0.999_999, 0.999_999_94] {
            let end = nucleus_end(&row, max, share, &mut Vec::new());
            let count = 1 + sorted.iter().position(|one| *one == end).unwrap();
            let needed = f64::from(share) * total;
            assert!(sorted[..count].iter().map(weight).sum::<f64>() > needed - total * 1e-6);
            assert!(sorted[..count - 1].iter().map(weight).sum::<f64>() < needed + total * 1e-6);
        }
    }

    #[test]
    fn the_order_of_a_row_decides_nothing() {
        for seed in 0..50_u64 {
            // Sums over them in 64-bit floating point depend on the order.
            let order = |token: u64| spectrie_types::seed::splitmix(seed << 32 | token);
            let mut tokens: Vec<u64> = (0..3_000).collect();
            let score = |token: u64| -(order(token) as u32 as f32 / 1e8).sqrt();
            let row: Vec<f32> = tokens.iter().map(|&token| score(token)).collect();
            tokens.sort_unstable_by_key(|&token| order(token));
            let other: Vec<f32> = tokens.iter().map(|&token| score(token)).collect();
            let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            for share in [0.1, 0.7, 0.9, 0.999, 1.0_f32.next_down()] {
                let [one, another] =
                    [&row, &other].map(|row| nucleus_end(row, max, share, &mut Vec::new()).score);
                assert_eq!(one.to_bits(), another.to_bits());
                for top in [7, 1_000] {
                    let [one, another] = [&row, &other].map(|row| {
                        let mut kept = Vec::new();
                        likeliest(row, top, &mut kept);
                        cut_to_share(&mut kept, max, share);
                        kept.iter()
                            .map(|one| one.score.to_bits())
                            .collect::<Vec<u32>>()
                    });
                    assert_eq!(one, another);
                }
            }
        }
    }

    #[test]
    fn floating_point_sums_keep_others_only_where_rounding_decides() {
        let mut differing = 0;
        for seed in 0..300_u64 {
            let token = |token: u64| spectrie_types::seed::splitmix(seed << 32 | token) as u32;
            let row: Vec<f32> = (0..2_000).map(|i| token(i) as f32 / -3e8).collect();
            let mut sorted = Vec::new();
            likeliest(&row, row.len(), &mut sorted);
            let max = sorted[0].score;
            let weight = |one: &Candidate| f64::from(exp_of_nonpositive(one.score - max));
            let total: f64 = sorted.iter().map(weight).sum();
            for share in [0.2, 0.5, 0.9, 0.99] {
                let end = nucleus_end(&row, max, share, &mut Vec::new());
                let wanted = f64::from(share) * total;
                let before = sorted.iter().take_while(|one| **one != end);
                let before: f64 = before.map(weight).sum();
                let by_sums = before < wanted && before + weight(&end) >= wanted;
                // Each of the masses may be wrong by half of 2^-40.
                let rounding = 2_000.0 * 2.0_f64.powi(-40);
                assert!(by_sums || before < wanted + rounding);
                assert!(by_sums || before + weight(&end) > wanted - rounding);
                differing += u32::from(!by_sums);
            }
        }
        assert!(differing < 3, "{differing} of 1200");
    }

    #[test]
    fn nucleus_of_one_possible_token_is_that_token() {
        let mut row = vec![f32::NEG_INFINITY; 100];
        row[7] = 3.0;
        row[8] = f32::NAN;
        assert_eq!(nucleus_end(&row, 3.0, 0.9, &mut Vec::new()).token, 7);
    }
}
