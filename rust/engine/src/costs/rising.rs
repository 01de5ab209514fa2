//! Measured times, made such that more rows never cost less.

use std::iter::repeat_n;

/// Of all numbers that never fall, those nearest to `times` in squares. A time below the one before it is noise, and
/// nobody knows which of the two is wrong: they share their mean (isotonic regression by pooling adjacent violators,
/// Ayer et al., 1955).
pub(super) fn rising(times: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for time in times {
        let (mut sum, mut count) = (time, 1);
        while let Some((lower, others)) =
            pools.pop_if(|(sum_before, before)| *sum_before * count as f64 > sum * *before as f64)
        {
            sum += lower;
            count += others;
        }
        pools.push((sum, count));
    }
    pools
        .into_iter()
        .flat_map(|(sum, count)| repeat_n(sum / count as f64, count))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;

    fn fitted(times: &[f64]) -> Vec<f64> {
        rising(times.iter().copied())
    }

    #[test]
    fn times_that_rise_stay_as_they_are() {
        for times in [&[1.0, 2.0, 2.0, 5.0][..], &[3.0], &[]] {
            assert_eq!(fitted(times), times);
        }
    }

    #[test]
    fn times_that_fall_share_their_mean() {
        assert_eq!(fitted(&[4.0, 3.0, 2.0, 5.0]), [3.0, 3.0, 3.0, 5.0]);
        // The last two together lie below the first.
        assert_eq!(fitted(&[3.0, 5.0, 1.0]), [3.0, 3.0, 3.0]);
        assert_eq!(fitted(&[4.0, 5.0, 0.0]), [3.0, 3.0, 3.0]);
        // One that is too high by six lifts those after it by two.
        let times = [10.0, 18.0, 12.0, 12.0, 20.0];
        assert_eq!(fitted(&times), [10.0, 14.0, 14.0, 14.0, 20.0]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(5), failure_persistence: None, ..ProptestConfig::default() })]

        /// The formula of Brunk, 1955: the largest over all beginnings of the least mean over all ends.
        #[test]
        fn pools_are_those_of_the_formula(times in vec(0.5_f64..2.0, 0..12)) {
            let mean = |from: usize, to: usize| {
                times[from..=to].iter().sum::<f64>() / (to + 1 - from) as f64
            };
            let least = |from: usize, at: usize| {
                (at..times.len()).map(|to| mean(from, to)).fold(f64::INFINITY, f64::min)
            };
            for (at, one) in fitted(&times).into_iter().enumerate() {
                let expected = (0..=at).map(|from| least(from, at)).fold(0.0, f64::max);
                prop_assert!((one - expected).abs() < 1e-12, "{times:?} at {at}");
            }
        }
    }
}
