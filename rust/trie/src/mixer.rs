//! From evidence to probability: a logistic layer that each request trains on its own output.
//!
//! `logit p = w · x`, where `x` holds the log-odds of the blend over match lengths and what the
//! blend cannot see: how often the token was seen, among how many others, how deep in the draft,
//! and whether it is the newest continuation of the longest match.

/// Number of inputs.
pub(crate) const NUM_FEATURES: usize = 10;

/// The inputs of one candidate: 1, log-odds of the blend, ln(1 + times seen) in own and in shared
/// text, ln(1 + all occurrences) in own and in shared text, ln(different candidates),
/// ln(1 + depth of the parent), and two flags: newest of the longest own and shared match.
pub(crate) type Features = [f32; NUM_FEATURES];

/// Starting weights: fitted by logistic regression over replays of Python sources, alone and with
/// a corpus of 1.2M tokens, and of prose, with the SmolLM2 tokenizer. Against the blend alone
/// they lower the log loss of unseen files by 10 to 13 %.
const PRIOR: Features = [
    -0.62, 0.49, 0.80, 0.17, -0.23, 0.08, -0.435, -0.31, 0.86, 0.75,
];

/// Step of the online training, per label.
const RATE: f32 = 0.005;

/// The weights of one request.
#[derive(Clone, Debug)]
pub(crate) struct Mixer {
    weights: Features,
}

impl Default for Mixer {
    fn default() -> Self {
        Self { weights: PRIOR }
    }
}

impl Mixer {
    /// Probability that a candidate comes next.
    pub(crate) fn probability(&self, features: &Features) -> f32 {
        let logit: f32 = self.weights.iter().zip(features).map(|(w, x)| w * x).sum();
        1.0 / (1.0 + (-logit).exp())
    }

    /// Moves the weights towards what came.
    pub(crate) fn learn(&mut self, features: &Features, came: bool) {
        let error = f32::from(u8::from(came)) - self.probability(features);
        for (weight, feature) in self.weights.iter_mut().zip(features) {
            *weight += RATE * error * feature;
        }
    }
}

/// The log-odds of a probability, kept finite.
pub(crate) fn logit(probability: f32) -> f32 {
    let probability = probability.clamp(1e-4, 1.0 - 1e-4);
    (probability / (1.0 - probability)).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_sightings_are_likelier_and_rivals_less_likely() {
        let mixer = Mixer::default();
        let seen = |times: f32, all: f32, rivals: f32| {
            let (times, all) = (times.ln_1p(), all.ln_1p());
            mixer.probability(&[1.0, 0.0, times, 0.0, all, 0.0, rivals.ln(), 0.0, 0.0, 0.0])
        };
        assert!(seen(3.0, 4.0, 2.0) > seen(1.0, 4.0, 2.0));
        assert!(seen(1.0, 4.0, 2.0) > seen(1.0, 4.0, 4.0));
    }

    #[test]
    fn weights_move_towards_what_came() {
        let features = [1.0, -1.0, 0.7, 0.0, 1.1, 0.0, 0.7, 0.0, 0.0, 0.0];
        let mut mixer = Mixer::default();
        let before = mixer.probability(&features);
        for _ in 0..20 {
            mixer.learn(&features, true);
        }
        let up = mixer.probability(&features);
        for _ in 0..60 {
            mixer.learn(&features, false);
        }
        assert!(up > before && mixer.probability(&features) < before);
    }

    #[test]
    fn log_odds_are_finite() {
        assert!(logit(0.0).is_finite() && logit(1.0).is_finite());
        assert!(logit(0.5).abs() < 1e-6);
    }
}
