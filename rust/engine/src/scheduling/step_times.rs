//! How long steps take.

use spectrie_types::Histogram;
use spectrie_types::histogram::STEP_SECONDS;

use crate::output::Load;

/// Times of all steps since the start.
#[derive(Debug)]
pub(super) struct StepTimes {
    /// From the beginning of a plan to the end of its commit.
    whole: Histogram,
    /// The forwards of steps that verified drafts.
    verify: Histogram,
    /// What the step in flight waited for on the device that is not its own.
    waited_ms: f64,
}

impl StepTimes {
    pub(super) fn new() -> Self {
        Self {
            whole: Histogram::new(STEP_SECONDS),
            verify: Histogram::new(STEP_SECONDS),
            waited_ms: 0.0,
        }
    }

    /// Notes what the step in flight waited for on the device that is not its own.
    pub(super) fn note_waited(&mut self, waited_ms: f64) {
        self.waited_ms = waited_ms;
    }

    /// That of the step which ends.
    pub(super) fn take_waited_ms(&mut self) -> f64 {
        std::mem::take(&mut self.waited_ms)
    }

    /// Notes a step of `whole_ms`, and its forward of `forward_ms` where it `verified` drafts.
    pub(super) fn note(&mut self, whole_ms: f64, forward_ms: f64, verified: bool) {
        self.whole.observe(whole_ms * 1e-3);
        if verified {
            self.verify.observe(forward_ms * 1e-3);
        }
    }

    /// Writes its figures into `load`.
    pub(super) fn report(&self, load: &mut Load) {
        load.step_times = self.whole;
        load.verify_times = self.verify;
    }
}
