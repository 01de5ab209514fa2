//! A head of low rank that finds candidates, which the target's own head then weighs exactly.

use crate::error::CpuError;
use crate::matmul::Linear;
use crate::simd::Dtype;

/// Tokens that are weighed exactly.
pub(crate) const CANDIDATES: usize = 64;

/// Two thin products in place of the target's head.
pub struct LowRank<E: Dtype> {
    /// From the state to the rank.
    pub down: Linear<E>,
    /// From the rank to the target's vocabulary.
    pub up: Linear<E>,
}

impl<E: Dtype> LowRank<E> {
    pub(crate) fn check(&self, hidden: usize, vocabulary: usize) -> Result<(), CpuError> {
        for (what, given, expected) in [
            (
                "input of the low-rank head",
                self.down.in_features(),
                hidden,
            ),
            (
                "rank of the low-rank head",
                self.up.in_features(),
                self.down.out_features(),
            ),
            (
                "output of the low-rank head",
                self.up.out_features(),
                vocabulary,
            ),
        ] {
            if given != expected {
                return Err(CpuError::Length {
                    what,
                    given,
                    expected,
                });
            }
        }
        Ok(())
    }
}

/// The greatest values of a row: their indices, greatest first, the lower index first of equal ones. NaN
/// is never among them.
pub(crate) fn greatest(row: &[f32], count: usize) -> Vec<usize> {
    // Each bucket has one value that is at least its maximum, so the `count`th of these is a floor.
    let mut maxima: Vec<f32> = row
        .chunks(BUCKET)
        .map(|bucket| bucket.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b)))
        .collect();
    let floor = if maxima.len() > count {
        *maxima
            .select_nth_unstable_by(count - 1, |a, b| b.total_cmp(a))
            .1
    } else {
        f32::NEG_INFINITY
    };
    let mut found: Vec<usize> = (0..row.len())
        .filter(|&index| row[index] >= floor && row[index] > f32::NEG_INFINITY)
        .collect();
    found.sort_unstable_by(|&a, &b| row[b].total_cmp(&row[a]).then(a.cmp(&b)));
    found.truncate(count);
    found
}

const BUCKET: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_come_in_order_with_the_lower_index_first() {
        let mut row: Vec<f32> = (0..9000).map(|i| (i as f32 * 0.37).sin()).collect();
        row[7] = f32::NAN;
        row[4000] = 2.0;
        row[100] = 2.0;
        row[8999] = 3.0;
        let mut expected: Vec<usize> = (0..9000).filter(|&i| i != 7).collect();
        expected.sort_by(|&a, &b| row[b].total_cmp(&row[a]).then(a.cmp(&b)));
        assert_eq!(greatest(&row, 64), expected[..64]);
        assert_eq!(greatest(&row, 64)[..3], [8999, 100, 4000]);
        assert_eq!(greatest(&[1.0, f32::NEG_INFINITY], 64), [0]);
    }
}
