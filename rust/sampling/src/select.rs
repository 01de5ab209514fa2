//! The likeliest tokens of a row, found without sorting the vocabulary.

use crate::argmax::greatest;
use crate::candidate::Candidate;
use crate::exp::exp_of_nonpositive;

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

/// The last of the smallest set of likeliest tokens of `row` whose mass reaches `share` of the
/// row's. `max` is the largest score.
///
/// Masses are summed by bins of similar scores, so only the bin where the sum crosses is sorted.
#[inline(always)]
pub(crate) fn nucleus_end(
    row: &[f32],
    max: f32,
    share: f32,
    kept: &mut Vec<Candidate>,
) -> Candidate {
    let mut bins = [0.0_f64; NUM_BINS];
    let (chunks, rest) = row.as_chunks::<LANES>();
    let mut last = [f32::NEG_INFINITY; LANES];
    last[..rest.len()].copy_from_slice(rest);
    let (mut weights, mut places) = ([0.0; LANES], [0; LANES]);
    for scores in chunks.iter().chain([&last]) {
        for lane in 0..LANES {
            weights[lane] = exp_of_nonpositive(scores[lane] - max);
            places[lane] = bin(scores[lane], max) as u32;
        }
        for (&weight, &place) in weights.iter().zip(&places) {
            bins[place as usize] += f64::from(weight);
        }
    }
    let needed = f64::from(share) * bins.iter().sum::<f64>();
    let mut before = 0.0;
    let mut crossed = 0;
    // The sum of all may differ from the sum in order by rounding: the last bin with mass crosses.
    for (index, &mass) in bins.iter().enumerate().filter(|(_, mass)| **mass > 0.0) {
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
    let end = cut_at_mass(kept, max, needed - before).unwrap_or(kept.len());
    kept[end - 1]
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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn nucleus_of_one_possible_token_is_that_token() {
        let mut row = vec![f32::NEG_INFINITY; 100];
        row[7] = 3.0;
        row[8] = f32::NAN;
        assert_eq!(nucleus_end(&row, 3.0, 0.9, &mut Vec::new()).token, 7);
    }
}
