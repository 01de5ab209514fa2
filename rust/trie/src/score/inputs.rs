//! The inputs of the mixer: their number and positions, and log-odds.

use crate::score::calibration::Calibration;
use crate::sources::hints::KINDS;

/// The inputs of one candidate.
pub(crate) type Features = [f32; NUM_FEATURES];

/// Number of inputs, padded to whole vectors.
pub(crate) const NUM_FEATURES: usize = (BIGRAMS + 2).next_multiple_of(4);

/// The first input of each group. 0 is one, 1 the blend over both kinds of text.
pub(super) const TEXT: [usize; 2] = [2, 10];
pub(super) const RIVALS: usize = 18;
pub(super) const DEPTH: usize = 19;
pub(super) const RECYCLED: [usize; 3] = [20, 22, BIGRAMS];
pub(super) const OWN: usize = 24;
pub(super) const SHARED: usize = 25;
pub(super) const BOTH_NEWEST: usize = 26;
pub(super) const NEWEST_AND_LIKELY: usize = 27;
pub(super) const PAIR_IN_TEXT: usize = 28;
pub(super) const HINTS: usize = 29;
pub(super) const LAST_ALONE: usize = HINTS + 3 * KINDS;
pub(super) const LATELY: usize = LAST_ALONE + 1;
pub(super) const BIGRAMS: usize = LATELY + Calibration::NUM_INPUTS;

/// The probability of log-odds.
pub(crate) fn logistic(log_odds: f32) -> f32 {
    1.0 / (1.0 + (-log_odds).exp())
}

/// The log-odds of a probability, kept finite.
pub(crate) fn logit(probability: f32) -> f32 {
    let probability = probability.clamp(1e-4, 1.0 - 1e-4);
    (probability / (1.0 - probability)).ln()
}

/// Sets of weights: one that always counts, then those picked by own and by shared match, by recycled
/// answers and by the hits of the request lately.
pub(super) const OWN_SETS: usize = 10;
const SHARED_SETS: usize = 10;
const RECYCLED_SETS: usize = 8;
pub(super) const LATELY_SETS: usize = 6;
pub(super) const NUM_SETS: usize = 1 + OWN_SETS + SHARED_SETS + RECYCLED_SETS + LATELY_SETS;

/// Which sets count at a node: 0 where nothing matches, the last where most does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Situation {
    /// Below [`OWN_SETS`].
    pub(crate) own: u8,
    /// Below [`SHARED_SETS`].
    pub(crate) shared: u8,
    /// Below [`RECYCLED_SETS`].
    pub(crate) recycled: u8,
    /// Below [`LATELY_SETS`]: how often the request has said what was expected.
    pub(crate) lately: u8,
}

impl Situation {
    pub(super) fn sets(self) -> [usize; 5] {
        let own = 1 + usize::from(self.own);
        let shared = 1 + OWN_SETS + usize::from(self.shared);
        let recycled = 1 + OWN_SETS + SHARED_SETS + usize::from(self.recycled);
        let lately = 1 + OWN_SETS + SHARED_SETS + RECYCLED_SETS + usize::from(self.lately);
        [0, own, shared, recycled, lately]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_odds_are_finite() {
        assert!(logit(0.0).is_finite() && logit(1.0).is_finite());
        assert!(logit(0.5).abs() < 1e-6);
    }
}
