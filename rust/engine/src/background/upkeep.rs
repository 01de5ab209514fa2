//! What keeping drafters and draft memory up to date takes of the thread that runs steps.

use std::sync::Arc;

use crate::clock::Clock;

/// Times upkeep by the engine's clock: indexing, training, recycling, inserting, releasing, and
/// waits for the background thread.
#[derive(Debug)]
pub(crate) struct Upkeep {
    clock: Arc<dyn Clock>,
    /// When the call that holds the scheduler began, if it had to wait.
    entered_s: Option<f64>,
    step_ms: f64,
    total_ms: f64,
}

impl Upkeep {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            entered_s: None,
            step_ms: 0.0,
            total_ms: 0.0,
        }
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    pub(crate) fn now_s(&self) -> f64 {
        self.clock.now_s()
    }

    /// Notes that a call that began at `began_s` has the scheduler now.
    pub(crate) fn enter(&mut self, began_s: f64) {
        self.entered_s = Some(began_s);
    }

    /// When the call at hand began; what it waited for the scheduler is upkeep of the step.
    pub(crate) fn begin_call(&mut self) -> f64 {
        match self.entered_s.take() {
            Some(began_s) => {
                self.note(began_s);
                began_s
            }
            None => self.now_s(),
        }
    }

    /// Begins a step, whose upkeep is counted apart.
    pub(crate) fn begin_step(&mut self) {
        self.step_ms = 0.0;
    }

    /// Counts what was done since `began_s`; gives its milliseconds.
    pub(crate) fn note(&mut self, began_s: f64) -> f64 {
        let milliseconds = (self.now_s() - began_s) * 1e3;
        self.step_ms += milliseconds;
        self.total_ms += milliseconds;
        milliseconds
    }

    /// Milliseconds of upkeep since the step began.
    pub(crate) fn step_ms(&self) -> f64 {
        self.step_ms
    }

    /// Seconds of upkeep since the start.
    pub(crate) fn total_seconds(&self) -> f64 {
        self.total_ms / 1e3
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Ticking;

    #[test]
    fn waits_and_work_are_counted_by_step_and_in_all() {
        let mut upkeep = Upkeep::new(Arc::new(Ticking::by(1000)));
        upkeep.begin_step();
        upkeep.enter(-3.0);
        assert!((upkeep.begin_call() + 3.0).abs() < 1e-12);
        assert!((upkeep.step_ms() - 3000.0).abs() < 1e-9);
        // The wait counts once.
        let began_s = upkeep.begin_call();
        assert!((upkeep.note(began_s) - 1000.0).abs() < 1e-9);
        assert!((upkeep.step_ms() - 4000.0).abs() < 1e-9);
        upkeep.begin_step();
        assert!(upkeep.step_ms().abs() < 1e-12);
        assert!((upkeep.total_seconds() - 4.0).abs() < 1e-12);
    }
}
