//! All that tells whether drafts pay, from the steps as they turned out.

use super::decisions::{Decisions, Step};
use super::rest::{Rests, Sample};
use super::trial::{Trial, Trials};
use crate::output::Load;

/// A step of decoding alone, as it turned out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outcome {
    /// Its number.
    pub(crate) step: u64,
    pub(crate) trial: Trial,
    pub(crate) num_requests: usize,
    pub(crate) num_drafts: usize,
    /// Tokens that it emitted.
    pub(crate) num_tokens: u64,
    /// What it took, and what of that kept drafters and shared memory up to date.
    pub(crate) milliseconds: f64,
    pub(crate) upkeep_ms: f64,
    /// What plain decoding was expected to take.
    pub(crate) plain_ms: f64,
    /// How often the likeliest unsent token must come true to pay for its row.
    pub(crate) break_even: f64,
    /// Whether a drafter of the runner's was tried in it while nobody else was asked.
    pub(crate) has_probed: bool,
}

/// Owns the evidence of what drafts gain.
#[derive(Debug, Default)]
pub(crate) struct Gain {
    trials: Trials,
    rests: Rests,
    decisions: Decisions,
    num_judged: u64,
    num_right: u64,
}

impl Gain {
    /// Whether requests may be asked in step `step`: drafts have not lost lately.
    pub(crate) fn may_ask(&self, step: u64, num_requests: usize) -> bool {
        self.rests.may_ask(step, num_requests)
    }

    /// See [`Rests::wake`].
    pub(crate) fn wake(&mut self, step: u64, num_requests: usize, promise: f64) -> bool {
        self.rests.wake(step, num_requests, promise)
    }

    /// Notes an offer of the open step of which nothing was sent, and whether the model said its
    /// likeliest first token.
    pub(crate) fn note_unsent(&mut self, is_hit: bool) {
        self.decisions.note_unsent(is_hit);
    }

    /// Takes the open step; `None` of one that says nothing.
    pub(crate) fn end_step(&mut self, outcome: Option<&Outcome>) {
        let Some(one) = outcome else {
            self.decisions.end_step(None);
            return;
        };
        let (tokens, step_ms, upkeep_ms) = (one.num_tokens, one.milliseconds, one.upkeep_ms);
        self.trials.note(one.trial, tokens, step_ms, upkeep_ms);
        let is_offered = one.trial == Trial::Offered;
        // One with a level is no plain step.
        if !one.has_probed {
            self.rests.note(&Sample {
                step: one.step,
                num_requests: one.num_requests,
                is_offered,
                num_tokens: tokens,
                // Plain decoding needs no upkeep.
                milliseconds: step_ms - if is_offered { 0.0 } else { upkeep_ms },
                plain_ms: one.plain_ms,
            });
        }
        let is_right = self.decisions.end_step(Some(&Step {
            trial: one.trial,
            num_requests: one.num_requests,
            num_drafts: one.num_drafts,
            num_tokens: tokens,
            milliseconds: step_ms,
            break_even: one.break_even,
        }));
        if let Some(is_right) = is_right {
            self.num_judged += 1;
            self.num_right += u64::from(is_right);
        }
    }

    /// Writes its figures into `load`.
    pub(crate) fn report(&self, load: &mut Load) {
        load.choices_total = self.num_judged;
        load.choices_right = self.num_right;
        self.trials.report(load);
    }
}
