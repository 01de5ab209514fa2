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
}

impl StepTimes {
    pub(super) fn new() -> Self {
        Self {
            whole: Histogram::new(STEP_SECONDS),
            verify: Histogram::new(STEP_SECONDS),
        }
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
