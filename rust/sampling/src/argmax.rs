//! The likeliest token of a row.

use crate::candidate::Candidate;

/// The greatest logit and its lowest token id; `None` unless the greatest is finite. NaN is passed
/// over.
#[inline(always)]
pub(crate) fn argmax(row: &[f32]) -> Option<Candidate> {
    const BLOCK: usize = 1024;
    let mut best = f32::NEG_INFINITY;
    let mut best_block = 0;
    for (index, block) in row.chunks(BLOCK).enumerate() {
        let max = greatest(block);
        if max > best {
            best = max;
            best_block = index;
        }
    }
    let first = best_block * BLOCK;
    let offset = row[first.min(row.len())..]
        .iter()
        .position(|&value| value >= best)?;
    best.is_finite().then_some(Candidate {
        score: best,
        token: (first + offset) as u32,
    })
}

/// The greatest of `block`, NaN passed over; minus infinity of none.
#[inline(always)]
pub(crate) fn greatest(block: &[f32]) -> f32 {
    const LANES: usize = 16;
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let (parts, rest) = block.as_chunks::<LANES>();
    for part in parts {
        for (lane, &value) in lanes.iter_mut().zip(part) {
            *lane = if value > *lane { value } else { *lane };
        }
    }
    for (lane, &value) in lanes.iter_mut().zip(rest) {
        *lane = if value > *lane { value } else { *lane };
    }
    for half in [8, 4, 2, 1] {
        let (low, high) = lanes.split_at_mut(half);
        for (lane, &value) in low.iter_mut().zip(&*high) {
            *lane = if value > *lane { value } else { *lane };
        }
    }
    lanes[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argmax_takes_the_lowest_id_of_equal_logits_and_passes_nan_over() {
        let mut row = vec![0.0; 5_000];
        row[3_000] = 2.0;
        row[4_999] = 2.0;
        row[17] = f32::NAN;
        assert_eq!(argmax(&row).map(|one| one.token), Some(3_000));
        row[1_023] = 2.0;
        assert_eq!(argmax(&row).map(|one| one.token), Some(1_023));
    }
}
