//! What other threads ask of the one that runs steps.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::lock::lock;

#[derive(Debug, Default)]
struct Asked {
    wake: bool,
    stop: bool,
}

/// Wake-ups and the order to stop.
#[derive(Debug, Default)]
pub(super) struct Signals {
    asked: Mutex<Asked>,
    changed: Condvar,
}

impl Signals {
    /// Wakes the thread after a change to the engine.
    pub(super) fn wake(&self) {
        lock(&self.asked).wake = true;
        self.changed.notify_all();
    }

    /// Ends the run after the current step, and every later one at once.
    pub(super) fn stop(&self) {
        lock(&self.asked).stop = true;
        self.changed.notify_all();
    }

    /// Forgets earlier wake-ups; false if the run should end.
    pub(super) fn begin_step(&self) -> bool {
        let mut asked = lock(&self.asked);
        asked.wake = false;
        !asked.stop
    }

    /// Waits for a signal; false if there was none within `rest`.
    pub(super) fn wait(&self, rest: Duration) -> bool {
        let quiet = |asked: &mut Asked| !asked.wake && !asked.stop;
        let waited = self
            .changed
            .wait_timeout_while(lock(&self.asked), rest, quiet);
        let (asked, _) = waited.unwrap_or_else(PoisonError::into_inner);
        asked.wake || asked.stop
    }
}
