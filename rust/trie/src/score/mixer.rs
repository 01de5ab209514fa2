//! From evidence to probability: a logistic layer trained online.
//!
//! `logit p = (w_common + w_own + w_shared + w_recycled) · x`: the last three are picked by how far
//! the request's own text, the shared text and the model's earlier answers match, because the same
//! count means more after a long match than after a short one. This is the mixing of the PAQ
//! compressors (Mahoney, "Adaptive weighing of context models for lossless data compression",
//! 2005) over candidates instead of bits.

use std::sync::LazyLock;

use crate::score::inputs::{Features, NUM_FEATURES};
use crate::score::weights::{OWN_SETS, SHARED_SETS, Weights};

/// Step of the online training, per label.
const RATE: f32 = 0.001;

/// The largest change of a log-odds that one label may cause.
const MAX_STEP: f32 = 2.0;

/// Which sets count at a node: 0 where nothing matches, the last where most does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Situation {
    /// Below [`OWN_SETS`].
    pub(crate) own: u8,
    /// Below [`SHARED_SETS`].
    pub(crate) shared: u8,
    /// Below [`RECYCLED_SETS`].
    pub(crate) recycled: u8,
}

impl Situation {
    fn sets(self) -> [usize; 4] {
        let own = 1 + usize::from(self.own);
        let shared = 1 + OWN_SETS + usize::from(self.shared);
        let recycled = 1 + OWN_SETS + SHARED_SETS + usize::from(self.recycled);
        [0, own, shared, recycled]
    }
}

/// The weights of one request.
#[derive(Clone, Debug)]
pub(crate) struct Mixer {
    weights: Weights,
    rate: f32,
}

impl Default for Mixer {
    fn default() -> Self {
        static PRIOR: LazyLock<Weights> = LazyLock::new(Weights::default);
        Self::new(PRIOR.clone())
    }
}

impl Mixer {
    /// A mixer that starts from `weights`.
    pub(crate) fn new(weights: Weights) -> Self {
        Self {
            weights,
            rate: RATE,
        }
    }

    pub(crate) fn all(&self) -> &Weights {
        &self.weights
    }

    pub(crate) fn set_rate(&mut self, rate: f32) {
        self.rate = rate;
    }

    /// The weights that count at a node, added up.
    pub(crate) fn weights(&self, situation: Situation) -> Features {
        let mut sum = [0.0; NUM_FEATURES];
        for set in situation.sets() {
            for (sum, weight) in sum.iter_mut().zip(self.weights.set(set)) {
                *sum += weight;
            }
        }
        sum
    }

    /// Moves the weights of a node towards what came: `error` is outcome minus probability.
    pub(crate) fn learn(&mut self, situation: Situation, features: &Features, error: f32) {
        // A candidate with large inputs must not throw the weights about.
        let square: f32 = features.iter().map(|feature| feature * feature).sum();
        let rate = self.rate.min(MAX_STEP / (4.0 * square));
        let step = rate * error;
        for set in situation.sets() {
            let weights = self.weights.set_mut(set);
            for (weight, feature) in weights.iter_mut().zip(features) {
                *weight += step * feature;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::score::inputs::logistic;

    #[test]
    fn weights_move_towards_what_came_and_only_in_their_situation() {
        let mut features = [0.0; NUM_FEATURES];
        (features[0], features[2]) = (1.0, -1.0);
        let here = Situation {
            own: 3,
            ..Situation::default()
        };
        let mut mixer = Mixer::default();
        mixer.set_rate(0.05);
        let said = |mixer: &Mixer| {
            let weights = mixer.weights(here);
            logistic(weights[0] * features[0] + weights[2] * features[2])
        };
        let before = said(&mixer);
        for _ in 0..50 {
            let error = 1.0 - said(&mixer);
            mixer.learn(here, &features, error);
        }
        assert!(said(&mixer) > before + 0.1, "{before} {}", said(&mixer));
        let elsewhere = Situation {
            own: 5,
            shared: 1,
            recycled: 1,
        };
        let moved = |situation| {
            let (now, then) = (
                mixer.weights(situation),
                Mixer::default().weights(situation),
            );
            now[2] - then[2]
        };
        assert!(moved(here).abs() > 1.5 * moved(elsewhere).abs());
    }
}
