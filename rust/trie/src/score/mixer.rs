//! From evidence to probability: a logistic layer trained online.
//!
//! `logit p = (w_common + w_own + w_shared + w_recycled + w_lately) · x`: the others are picked by how
//! far the request's own text, the shared text and the model's earlier answers match, because the
//! same count means more after a long match than after a short one, and by how often the request has
//! said what was expected, because some texts repeat themselves and others do not. This is the mixing of the PAQ
//! compressors (Mahoney, "Adaptive weighing of context models for lossless data compression",
//! 2005) over candidates instead of bits.

use std::sync::{Arc, LazyLock};

use crate::score::calibration::Calibration;
use crate::score::head_inputs::{HeadInputs, HeadSets, of_belief};
use crate::score::inputs::{Features, NUM_FEATURES, Situation};
use crate::score::weights::{LearnedWeights, Weights};

/// Step of the online training, per label.
const RATE: f32 = 0.001;

/// Times that for how far a drafter of the runner's is believed: of the rates that accept most on the choosing split, one with
/// which a few answers tell whether it is right. Nearly as much is accepted at an eighth of it.
const BELIEF: f32 = 40.0;

/// Share of it that a request keeps after long without a question: little enough that a drafter that was wrong for long wakes
/// soon, on text that is made up.
const KEPT_OF_OLD: f32 = 0.25;

/// The largest change of a log-odds that one label may cause.
const MAX_STEP: f32 = 2.0;

/// The weights of one request.
#[derive(Clone, Debug)]
pub(crate) struct Mixer {
    weights: Weights,
    /// What they were before the request changed them, since it last chose.
    first: Weights,
    /// Whether they are its namespace's for requests that go astray; `None` for a caller's own.
    is_astray: Option<bool>,
    /// What it changed before that, not astray and astray.
    changes: [Option<Weights>; 2],
    rate: f32,
    /// That of all weights of a drafter's answers, where they are fitted.
    head_rate: Option<f32>,
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
            first: weights.clone(),
            weights,
            is_astray: Some(false),
            changes: [None, None],
            rate: RATE,
            head_rate: None,
        }
    }

    /// A mixer that starts from a caller's `weights`, whatever a namespace learned, and trains them
    /// by `rate`.
    pub(crate) fn given(weights: Weights, rate: f32) -> Self {
        Self {
            is_astray: None,
            rate,
            ..Self::new(weights)
        }
    }

    /// Fits all weights of a drafter's answers, at this rate.
    pub(crate) fn set_head_rate(&mut self, rate: f32) {
        self.head_rate = Some(rate);
    }

    pub(crate) fn all(&self) -> &Weights {
        &self.weights
    }

    /// Goes on with what a namespace learned from requests like this one, and with what the request
    /// changed itself, once it goes astray or no longer does.
    pub(crate) fn choose(&mut self, calibration: Calibration, learned: &LearnedWeights) {
        let Some(was) = self.is_astray else { return };
        let is_astray = calibration.is_astray(was);
        if is_astray == was {
            return;
        }
        self.note_changes();
        self.weights = learned.get(is_astray);
        for change in self.changes.iter().flatten() {
            self.weights.add(change, 1.0);
        }
        self.first.clone_from(&self.weights);
        self.is_astray = Some(is_astray);
    }

    /// Leaves a namespace a share of what the request changed.
    pub(crate) fn leave(&mut self, learned: &LearnedWeights) {
        self.note_changes();
        for (is_astray, change) in [false, true].into_iter().zip(&mut self.changes) {
            if let Some(change) = change.take() {
                learned.adopt(is_astray, &change);
            }
        }
    }

    fn note_changes(&mut self) {
        let index = usize::from(self.is_astray == Some(true));
        let changes = self.changes[index].get_or_insert_with(Weights::zero);
        changes.add_difference(&self.weights, &self.first);
        self.first.clone_from(&self.weights);
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

    /// The weights of a drafter's answers that count in these sets.
    pub(crate) fn head_weights(&self, drafter: usize, sets: HeadSets) -> HeadInputs {
        self.weights.head(drafter, sets)
    }

    /// Moves those that tell how far it is believed towards what came, or all where they are fitted: `error` is outcome
    /// minus probability. How its answers weigh beside what others say stays as it was fitted.
    pub(crate) fn learn_head(
        &mut self,
        drafter: usize,
        sets: HeadSets,
        inputs: &HeadInputs,
        error: f32,
    ) {
        let all = sets.all();
        let (inputs, rate, sets) = match self.head_rate {
            Some(rate) => (*inputs, rate, &all[..]),
            None => (of_belief(inputs), BELIEF * self.rate, sets.of_belief()),
        };
        let square: f32 = inputs.iter().map(|input| input * input).sum();
        let rate = rate.min(MAX_STEP / (sets.len() as f32 * square));
        self.weights.move_head(drafter, sets, &inputs, rate * error);
    }

    /// Forgets most of how far this request came to believe a drafter: that was long ago. What it took over from others
    /// stays, and so do weights that are fitted.
    pub(crate) fn fade_head(&mut self, drafter: usize) {
        if self.head_rate.is_some() {
            return;
        }
        self.note_changes();
        for change in self.changes.iter_mut().flatten() {
            let whole = Arc::clone(change.head_table(drafter));
            self.weights.add_head(drafter, &whole, KEPT_OF_OLD - 1.0);
            change.add_head(drafter, &whole, KEPT_OF_OLD - 1.0);
        }
        self.first.clone_from(&self.weights);
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
    use crate::score::head_inputs::NUM_INPUTS;
    use crate::score::inputs::logistic;

    #[test]
    fn weights_move_towards_what_came_and_only_in_their_situation() {
        let mut features = [0.0; NUM_FEATURES];
        (features[0], features[2]) = (1.0, -1.0);
        let here = Situation {
            own: 3,
            ..Situation::default()
        };
        let mut mixer = Mixer::given(Weights::default(), 0.05);
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
            lately: 1,
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

    #[test]
    fn a_request_that_goes_astray_takes_its_changes_along_and_leaves_a_share_where_they_were_made()
    {
        let learned = LearnedWeights::default();
        let shipped = Weights::default();
        let mut mixer = Mixer::new(shipped.clone());
        let first = |weights: &Weights| weights.set(0)[0] - shipped.set(0)[0];
        let mut astray = Calibration::default();
        (0..9).for_each(|_| astray.label(0.5, false));

        mixer.weights.set_mut(0)[0] += 1.0;
        mixer.choose(Calibration::default(), &learned);
        mixer.choose(astray, &learned);
        mixer.weights.set_mut(0)[0] += 2.0;
        mixer.choose(Calibration::default(), &learned);
        assert!((first(mixer.all()) - 3.0).abs() < 1e-6);
        assert!([false, true].iter().all(|&set| learned.get(set) == shipped));

        mixer.leave(&learned);
        let [kept, kept_astray] = [false, true].map(|set| first(&learned.get(set)));
        assert!(kept > 0.0 && kept < 1.0, "{kept}");
        assert!((kept_astray - 2.0 * kept).abs() < 1e-6);
        mixer.leave(&learned);
        assert!(
            (first(&learned.get(false)) - kept).abs() < 1e-6,
            "only once"
        );
    }

    #[test]
    fn what_a_request_found_of_a_drafter_long_ago_fades_and_what_others_found_stays() {
        let learned = LearnedWeights::default();
        let (sets, mut inputs) = (HeadSets::new(1, Situation::default()), [0.0; NUM_INPUTS]);
        inputs[0] = 1.0;
        let offset = |mixer: &Mixer, drafter| {
            mixer.head_weights(drafter, sets)[0] - Mixer::default().head_weights(drafter, sets)[0]
        };
        let doubt = |mixer: &mut Mixer, drafter| {
            (0..20).for_each(|_| mixer.learn_head(drafter, sets, &inputs, -1.0));
        };
        let mut before = Mixer::new(learned.get(false));
        doubt(&mut before, 1);
        before.leave(&learned);
        let mut mixer = Mixer::new(learned.get(false));
        let inherited = offset(&mixer, 1);
        assert!(inherited < -0.1);
        doubt(&mut mixer, 0);
        doubt(&mut mixer, 1);
        let [first, second] = [0, 1].map(|drafter| offset(&mixer, drafter));
        mixer.fade_head(1);
        let expected = inherited + KEPT_OF_OLD * (second - inherited);
        assert!((offset(&mixer, 1) - expected).abs() < 1e-4);
        assert!((offset(&mixer, 0) - first).abs() < 1e-4);

        // Astray it takes along what is left, and what is left of that is its own too.
        let mut astray = Calibration::default();
        (0..9).for_each(|_| astray.label(0.5, false));
        mixer.choose(astray, &learned);
        let own = KEPT_OF_OLD * (second - inherited);
        assert!((offset(&mixer, 1) - own).abs() < 1e-4);
        mixer.fade_head(1);
        assert!((offset(&mixer, 1) - KEPT_OF_OLD * own).abs() < 1e-4);
    }

    #[test]
    fn many_requests_side_by_side_that_forget_leave_their_namespace_sane() {
        let learned = LearnedWeights::default();
        let (sets, mut inputs) = (HeadSets::new(1, Situation::default()), [0.0; NUM_INPUTS]);
        inputs[0] = 1.0;
        for _ in 0..40 {
            let mut wave = vec![Mixer::new(learned.get(false)); 32];
            for mixer in &mut wave {
                for _ in 0..3 {
                    let said = logistic(mixer.head_weights(0, sets)[0]);
                    mixer.learn_head(0, sets, &inputs, -said);
                    mixer.fade_head(0);
                }
                mixer.leave(&learned);
            }
        }
        let offset = Mixer::new(learned.get(false)).head_weights(0, sets)[0];
        assert!(offset > -10.0 && offset < 0.0, "{offset}");
    }
}
