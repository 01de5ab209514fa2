//! What drafts gain in tokens per second, by steps with and without.

use crate::output::Load;

/// What a step of nothing but decoding says about the gain of drafts. Steps that compute prompts
/// say nothing, nor do those in which no request leaves its drafts to the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trial {
    /// The budget chose the drafts.
    Offered,
    /// There were to be none.
    Holdout,
}

/// Steps of one kind.
#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    steps: u64,
    tokens: u64,
    milliseconds: f64,
}

/// The steps of both kinds.
#[derive(Debug, Default)]
pub(crate) struct Trials {
    offered: Totals,
    holdout: Totals,
}

impl Trials {
    /// Counts a step that emitted `tokens` and took `step_ms` from its plan to its results.
    pub(crate) fn note(&mut self, trial: Trial, tokens: u64, step_ms: f64) {
        let totals = match trial {
            Trial::Offered => &mut self.offered,
            Trial::Holdout => &mut self.holdout,
        };
        totals.steps += 1;
        totals.tokens += tokens;
        totals.milliseconds += step_ms.max(0.0);
    }

    /// Writes its figures into `load`.
    pub(crate) fn report(&self, load: &mut Load) {
        load.offered_steps = self.offered.steps;
        load.offered_tokens = self.offered.tokens;
        load.step_ms_total = self.offered.milliseconds;
        load.holdout_steps = self.holdout.steps;
        load.holdout_tokens = self.holdout.tokens;
        load.holdout_ms_total = self.holdout.milliseconds;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_counted_by_their_kind_and_never_take_less_than_nothing() {
        let mut trials = Trials::default();
        trials.note(Trial::Offered, 5, 2.0);
        trials.note(Trial::Offered, 4, -1.0);
        trials.note(Trial::Holdout, 3, 4.0);
        let mut load = Load::default();
        trials.report(&mut load);
        assert_eq!((load.offered_steps, load.offered_tokens), (2, 9));
        assert_eq!((load.holdout_steps, load.holdout_tokens), (1, 3));
        assert!((load.step_ms_total - 2.0).abs() < 1e-9);
        assert!((load.holdout_ms_total - 4.0).abs() < 1e-9);
    }
}
