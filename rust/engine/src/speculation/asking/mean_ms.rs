//! A running mean of durations.

/// Share of a measurement in a running mean.
const RATE: f64 = 1.0 / 8.0;

/// A measurement counts as at most this many times the mean, so that a hiccup of the machine does
/// not make asking dear.
const MAX_SURPRISE: f64 = 4.0;

/// What a mean counts as at least when a measurement is compared with it, in milliseconds.
const LEAST_MS: f64 = 0.001;

/// A running mean of durations; none before the first.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MeanMs(Option<f64>);

impl MeanMs {
    /// The mean, in milliseconds.
    pub(crate) fn get(self) -> Option<f64> {
        self.0
    }

    /// Takes a measurement.
    pub(crate) fn note(&mut self, milliseconds: f64) {
        self.0 = Some(self.0.map_or(milliseconds, |mean| {
            let counted = milliseconds.min(MAX_SURPRISE * mean.max(LEAST_MS));
            mean + RATE * (counted - mean)
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_hiccup_hardly_moves_a_mean_and_a_lasting_change_does() {
        let mut mean = MeanMs::default();
        assert_eq!(mean.get(), None);
        (0..20).for_each(|_| mean.note(0.1));
        mean.note(50.0);
        assert!(mean.get().unwrap() < 0.14, "{mean:?}");
        (0..40).for_each(|_| mean.note(4.0));
        assert!((mean.get().unwrap() - 4.0).abs() < 0.5, "{mean:?}");
        (0..40).for_each(|_| mean.note(0.1));
        assert!(mean.get().unwrap() < 0.2, "{mean:?}");
    }
}
