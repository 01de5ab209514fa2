//! How many values were of which size.

/// More that a process counts between two of its reports is no count.
const MOST_NEW: u64 = 1 << 40;

/// Most buckets of a histogram, the one above all bounds included.
const MAX_BUCKETS: usize = 20;

/// Bounds for the time of a step, in seconds.
pub const STEP_SECONDS: &[f64] = &[
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

/// Bounds for what drafting takes of a step, in seconds.
pub const DRAFT_SECONDS: &[f64] = &[
    1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2,
    5e-2, 0.1,
];

/// Bounds for the nodes of a draft tree.
pub const TREE_NODES: &[f64] = &[
    1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0,
];

/// Counts of values by size, and the sum of the values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Histogram {
    bounds: &'static [f64],
    counts: [u64; MAX_BUCKETS],
    sum: f64,
}

impl Histogram {
    /// An empty one. Bucket `i` counts values above bound `i - 1` and at most bound `i`; the last one, values
    /// above all bounds, which ascend and are fewer than 20: those beyond are left out.
    #[must_use]
    pub fn new(bounds: &'static [f64]) -> Self {
        Self {
            bounds: &bounds[..bounds.len().min(MAX_BUCKETS - 1)],
            ..Self::default()
        }
    }

    /// Counts a value.
    pub fn observe(&mut self, value: f64) {
        let bucket = self.bounds.partition_point(|&bound| bound < value);
        self.counts[bucket] += 1;
        self.sum += value;
    }

    /// Adds what another process counted between two of its reports, which may be false: buckets that this
    /// one lacks are left out, and what became less, or more than can be true, counts nothing.
    pub fn add(&mut self, now: (&[u64], f64), before: (&[u64], f64)) {
        let buckets = self.bounds.len() + 1;
        for (index, count) in self.counts[..buckets].iter_mut().enumerate() {
            let [now, before] = [now.0, before.0].map(|all| all.get(index).copied().unwrap_or(0));
            let new = now.saturating_sub(before);
            *count += if new > MOST_NEW { 0 } else { new };
        }
        self.sum += growth(now.1, before.1);
    }

    /// The bounds of its buckets but the last one.
    #[must_use]
    pub fn bounds(&self) -> &'static [f64] {
        self.bounds
    }

    /// How many values each bucket holds: one number more than there are bounds.
    #[must_use]
    pub fn counts(&self) -> &[u64] {
        &self.counts[..=self.bounds.len()]
    }

    /// The sum of all values.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.sum
    }
}

/// What a sum that another process reports has grown by; nothing where one of the two is no sum.
#[must_use]
pub fn growth(now: f64, before: f64) -> f64 {
    let more = now - before;
    if more.is_finite() { more.max(0.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_in_the_bucket_of_the_least_bound_that_is_no_smaller() {
        let mut histogram = Histogram::new(&[1.0, 2.0]);
        for value in [0.5, 1.0, 1.5, 2.0, 2.5] {
            histogram.observe(value);
        }
        assert_eq!(histogram.counts(), [2, 2, 1]);
        assert!((histogram.sum() - 7.5).abs() < 1e-12);
    }

    #[test]
    fn what_others_counted_is_added_once() {
        let mut histogram = Histogram::new(&[1.0, 2.0]);
        histogram.add((&[1, 2, 3], 6.0), (&[], 0.0));
        histogram.add((&[2, 2, 4, 9], 8.0), (&[1, 2, 3], 6.0));
        assert_eq!(histogram.counts(), [2, 2, 4]);
        assert!((histogram.sum() - 8.0).abs() < 1e-12);
        histogram.add((&[0, 0, 0], 0.0), (&[2, 2, 4], 8.0));
        assert_eq!(histogram.counts(), [2, 2, 4], "a process that began anew");
    }

    #[test]
    fn what_cannot_be_true_is_not_added() {
        let mut histogram = Histogram::new(&[1.0]);
        histogram.add((&[2, 1], 5.0), (&[], 0.0));
        for (counts, sum) in [([u64::MAX, 1], f64::INFINITY), ([2, 1], f64::NAN)] {
            histogram.add((&counts, sum), (&[2, 1], 5.0));
            histogram.add((&[2, 1], 5.0), (&counts, sum));
        }
        assert_eq!(histogram.counts(), [2, 1]);
        assert!((histogram.sum() - 5.0).abs() < 1e-12);
    }

    #[test]
    fn all_bounds_ascend_and_fit() {
        for bounds in [STEP_SECONDS, DRAFT_SECONDS, TREE_NODES] {
            assert!(bounds.is_sorted_by(|one, next| one < next));
            assert_eq!(Histogram::new(bounds).bounds(), bounds);
        }
    }
}
