//! How far a request's scores have been right lately.

/// Share of the old evidence kept at each label.
const KEEP: f32 = 0.9;
/// Weight of the belief that the scores are right, in expected hits.
const PRIOR: f32 = 2.0;
/// Bounds of the factor on the odds.
const LEAST: f32 = 0.05;
const MOST: f32 = 1.5;

/// A factor on the odds of every candidate, from what was expected of the nodes that the output
/// reached and what came. Nodes it did not reach say nothing and are not counted.
///
/// A request that leaves known text loses its drafts after two or three misses. Because the root
/// is scored at every draft, taken or not, its label keeps coming and the drafts return.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Calibration {
    expected: f32,
    came: f32,
}

impl Calibration {
    /// Notes that a node expected a hit with probability `mass` and got one or not.
    pub(crate) fn label(&mut self, mass: f32, hit: bool) {
        self.expected = self.expected * KEEP + mass;
        self.came = self.came * KEEP + f32::from(u8::from(hit));
    }

    /// The factor now.
    pub(crate) fn factor(self) -> f32 {
        ((self.came + PRIOR) / (self.expected + PRIOR)).clamp(LEAST, MOST)
    }

    /// A conditional probability with its odds multiplied by `factor`.
    pub(crate) fn apply(probability: f32, factor: f32) -> f32 {
        let scaled = probability * factor;
        scaled / (1.0 - probability + scaled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_misses_nearly_halve_the_odds_and_hits_restore_them() {
        let mut calibration = Calibration::default();
        assert!((calibration.factor() - 1.0).abs() < 1e-6);
        for _ in 0..3 {
            calibration.label(0.6, false);
        }
        let low = calibration.factor();
        assert!(low < 0.6, "{low}");
        for _ in 0..4 {
            calibration.label(0.6, true);
        }
        assert!(calibration.factor() > 0.9, "{}", calibration.factor());
    }

    #[test]
    fn labels_that_come_as_expected_change_little() {
        let mut calibration = Calibration::default();
        for step in 0..100 {
            calibration.label(0.5, step % 2 == 0);
        }
        assert!((calibration.factor() - 1.0).abs() < 0.15);
    }

    #[test]
    fn scaled_odds_stay_probabilities() {
        for factor in [LEAST, 1.0, MOST] {
            for probability in [0.0, 0.3, 0.999, 1.0] {
                let scaled = Calibration::apply(probability, factor);
                assert!((0.0..=1.0).contains(&scaled));
            }
        }
        assert!((Calibration::apply(0.3, 1.0) - 0.3).abs() < 1e-6);
    }
}
