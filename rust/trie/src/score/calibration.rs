//! Expected against actual acceptance of one request, recently.

/// Share of the old evidence kept at each label.
const KEEP: f32 = 0.85;
/// Weight of the belief that the scores are right, in expected hits.
const PRIOR: f32 = 1.0;

/// Missed hits in a row, by expectation, that are borne, and how much each one more costs.
const PATIENCE: f32 = 1.6;
const DISTRUST: f32 = 3.0;

/// Below this probability, drafted candidates come more often than said: by this share near zero,
/// on the tuning split.
const UNLIKELY: f32 = 0.35;
const UNDERSTATED: f32 = 0.25;

/// Shares of hits lately below which a request goes astray, and above which it no longer does.
const ASTRAY: [f32; 2] = [0.25, 0.5];

/// What was expected of the nodes that the output reached, and what came. Nodes it did not reach
/// say nothing and are not counted.
///
/// It is an input of the mixer: a request that leaves known text soon drafts less. Because the
/// root is scored at every draft, taken or not, its label keeps coming and the drafts return.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Calibration {
    expected: f32,
    came: f32,
    misses: f32,
    /// Labels in a row that were hits.
    streak: f32,
    /// Hits expected of the labels in a row that were misses.
    wrong: f32,
}

impl Calibration {
    /// Number of [`Calibration::inputs`].
    pub(crate) const NUM_INPUTS: usize = 3;

    /// Notes that a node expected a hit with probability `mass` and got one or not.
    pub(crate) fn label(&mut self, mass: f32, hit: bool) {
        let hit = f32::from(u8::from(hit));
        self.expected = self.expected * KEEP + mass;
        self.came = self.came * KEEP + hit;
        self.misses = self.misses * KEEP + (1.0 - hit);
        self.streak = hit * (self.streak + 1.0);
        self.wrong = (1.0 - hit) * (self.wrong + mass);
    }

    /// Whether hardly anything that the request says was expected at all, if it `was` so before.
    pub(crate) fn is_astray(self, was: bool) -> bool {
        let share = (self.came + PRIOR) / (self.came + self.misses + 2.0 * PRIOR);
        share < ASTRAY[usize::from(was)]
    }

    /// A factor on the odds of every candidate: 1, unless hits were promised again and again and
    /// none came. Weights learn slowly; this backs off within three steps.
    pub(crate) fn trust(self) -> f32 {
        1.0 / (1.0 + DISTRUST * (self.wrong - PATIENCE).max(0.0))
    }

    /// What a candidate of this probability comes to be when it is among those that are drafted.
    ///
    /// The mixer is right over all candidates of a node, most of which are hopeless; of those it
    /// calls unlikely, the drafted ones are the better part.
    pub(crate) fn of_drafted(probability: f32) -> f32 {
        let share = probability / UNLIKELY;
        probability * (1.0 + UNDERSTATED * (1.0 - share * share).max(0.0))
    }

    /// A probability with its odds multiplied by `factor`.
    pub(crate) fn scale(probability: f32, factor: f32) -> f32 {
        let scaled = probability * factor;
        scaled / (1.0 - probability + scaled)
    }

    /// Logarithms of hits over expected hits, of hits over misses, and of the hits in a row.
    pub(crate) fn inputs(self) -> [f32; Self::NUM_INPUTS] {
        [
            ((self.came + PRIOR) / (self.expected + PRIOR)).ln(),
            ((self.came + PRIOR) / (self.misses + PRIOR)).ln(),
            self.streak.ln_1p(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_lower_the_inputs_and_hits_raise_them_again() {
        let mut calibration = Calibration::default();
        assert!(calibration.inputs().iter().all(|input| input.abs() < 1e-6));
        for _ in 0..3 {
            calibration.label(0.6, false);
        }
        let low = calibration.inputs();
        assert!(low[0] < -0.7 && low[1] < -1.0 && low[2] == 0.0, "{low:?}");
        for _ in 0..4 {
            calibration.label(0.6, true);
        }
        let high = calibration.inputs();
        assert!(high[0] > 0.0 && high[1] > 0.0 && high[2] > 1.0, "{high:?}");
    }

    #[test]
    fn misses_lead_astray_and_hits_lead_back() {
        let mut calibration = Calibration::default();
        let mut is_astray = false;
        let mut labels = |hit, count| {
            for _ in 0..count {
                calibration.label(0.5, hit);
                is_astray = calibration.is_astray(is_astray);
            }
            is_astray
        };
        assert!(!labels(false, 2));
        assert!(labels(false, 6));
        assert!(labels(true, 2));
        assert!(!labels(true, 3));
        assert!(!labels(false, 2));
    }

    #[test]
    fn broken_promises_in_a_row_cost_trust_and_one_hit_restores_it() {
        let mut calibration = Calibration::default();
        for _ in 0..3 {
            assert!(Calibration::scale(0.9, calibration.trust()) > 0.6);
            calibration.label(0.9, false);
        }
        assert!(calibration.trust() < 0.25);
        assert!(Calibration::scale(0.7, calibration.trust()) < 0.4);
        calibration.label(0.9, true);
        assert!((calibration.trust() - 1.0).abs() < 1e-6);
        for _ in 0..3 {
            calibration.label(0.2, false);
        }
        assert!(
            (calibration.trust() - 1.0).abs() < 1e-6,
            "nothing was promised"
        );
    }

    #[test]
    fn unlikely_candidates_are_raised_and_keep_their_order() {
        let raised: Vec<f32> = (0_u8..=100)
            .map(|percent| Calibration::of_drafted(f32::from(percent) / 100.0))
            .collect();
        assert!(raised.is_sorted());
        assert!((raised[5] / 0.05 - 1.245).abs() < 0.01 && (raised[50] - 0.5).abs() < 1e-6);
    }

    #[test]
    fn labels_that_come_as_expected_change_little() {
        let mut calibration = Calibration::default();
        for step in 0..100 {
            calibration.label(0.5, step % 2 == 0);
        }
        let [expected, odds, _] = calibration.inputs();
        assert!(expected.abs() < 0.15 && odds.abs() < 0.2);
    }
}
