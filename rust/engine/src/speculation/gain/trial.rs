//! What drafts gain in tokens per second, by steps with and without.

use super::arm::Arm;
use crate::output::{Load, NetGain};

/// Steps of each kind that a net gain takes at least.
const LEAST_STEPS: u64 = 30;

/// What a step of nothing but decoding says about the gain of drafts. Steps that compute prompts
/// say nothing, nor do those in which no request leaves its drafts to the budget, or one sends
/// drafts that the budget has no say in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trial {
    /// The budget chose the drafts.
    Offered,
    /// No request was asked, because drafts have lost lately.
    Resting,
    /// Plain decoding, to compare with.
    Holdout,
}

/// Steps of one kind.
#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    steps: u64,
    tokens: u64,
    arm: Arm,
}

impl Totals {
    fn note(&mut self, tokens: u64, milliseconds: f64) {
        self.steps += 1;
        self.tokens += tokens;
        self.arm.note(tokens as f64, milliseconds);
    }
}

/// The steps of both kinds.
#[derive(Debug, Default)]
pub(crate) struct Trials {
    offered: Totals,
    holdout: Totals,
}

impl Trials {
    /// Counts a step that emitted `tokens` and took `step_ms`, of which `upkeep_ms` kept drafters
    /// and shared memory up to date. Plain decoding needs no upkeep, so that of the steps held out
    /// is charged to the others.
    pub(crate) fn note(&mut self, trial: Trial, tokens: u64, step_ms: f64, upkeep_ms: f64) {
        match trial {
            Trial::Offered | Trial::Resting => self.offered.note(tokens, step_ms.max(0.0)),
            Trial::Holdout => {
                self.holdout.note(tokens, (step_ms - upkeep_ms).max(0.0));
                self.offered.arm.charge(upkeep_ms);
            }
        }
    }

    /// Writes its figures into `load`.
    pub(crate) fn report(&self, load: &mut Load) {
        load.offered_steps = self.offered.steps;
        load.offered_tokens = self.offered.tokens;
        load.step_ms_total = self.offered.arm.milliseconds();
        load.holdout_steps = self.holdout.steps;
        load.holdout_tokens = self.holdout.tokens;
        load.holdout_ms_total = self.holdout.arm.milliseconds();
        load.net_gain = self.net_gain();
    }

    fn net_gain(&self) -> Option<NetGain> {
        let is_enough = self.offered.steps.min(self.holdout.steps) >= LEAST_STEPS;
        let gain = self.offered.arm.over(&self.holdout.arm);
        gain.filter(|_| is_enough)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(trials: &Trials) -> Load {
        let mut load = Load::default();
        trials.report(&mut load);
        load
    }

    #[test]
    fn steps_are_counted_by_their_kind_and_never_take_less_than_nothing() {
        let mut trials = Trials::default();
        trials.note(Trial::Offered, 5, 2.0, 0.5);
        trials.note(Trial::Resting, 4, -1.0, 0.0);
        trials.note(Trial::Holdout, 3, 4.0, 0.0);
        let load = report(&trials);
        assert_eq!((load.offered_steps, load.offered_tokens), (2, 9));
        assert_eq!((load.holdout_steps, load.holdout_tokens), (1, 3));
        assert!((load.step_ms_total - 2.0).abs() < 1e-9);
        assert!((load.holdout_ms_total - 4.0).abs() < 1e-9);
    }

    #[test]
    fn upkeep_in_steps_held_out_is_charged_to_the_others() {
        let mut trials = Trials::default();
        trials.note(Trial::Offered, 5, 2.0, 0.5);
        trials.note(Trial::Holdout, 1, 4.0, 1.5);
        let load = report(&trials);
        assert!((load.step_ms_total - 3.5).abs() < 1e-9);
        assert!((load.holdout_ms_total - 2.5).abs() < 1e-9);
    }

    #[test]
    fn net_gain_waits_for_enough_steps_held_out() {
        let mut trials = Trials::default();
        for step in 0..LEAST_STEPS {
            assert_eq!(report(&trials).net_gain, None, "{step}");
            (0..10).for_each(|_| trials.note(Trial::Offered, 3, 10.0, 0.0));
            trials.note(Trial::Holdout, 2, 10.0, 0.0);
        }
        let gain = report(&trials).net_gain.unwrap();
        assert!((gain.ratio - 1.5).abs() < 1e-9 && gain.low <= gain.ratio);
        assert!(gain.high - gain.low < 1e-6, "{gain:?}");
    }
}
