//! How far a request's scores have been right lately.

/// Share of the old evidence kept at each label.
const KEEP: f32 = 0.85;
/// Weight of the belief that the scores are right, in expected hits.
const PRIOR: f32 = 1.0;

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
    fn labels_that_come_as_expected_change_little() {
        let mut calibration = Calibration::default();
        for step in 0..100 {
            calibration.label(0.5, step % 2 == 0);
        }
        let [expected, odds, _] = calibration.inputs();
        assert!(expected.abs() < 0.15 && odds.abs() < 0.2);
    }
}
