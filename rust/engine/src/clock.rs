//! Where the engine reads the time.

use std::fmt::Debug;
use std::time::Instant;

use spectrie_trie::Visits;

/// A clock. The engine times by it how long a request lay in the inbox before the plan that admits
/// it, and how long plans, commits, drafting and learning take. Everything else goes by the times
/// that its callers pass in.
pub trait Clock: Debug + Send + Sync {
    /// Seconds since a moment of the clock's own; never less than before.
    fn now_s(&self) -> f64;

    /// Called after each draft, by the thread that drafted, with what it looked at: a simulated clock
    /// goes on by what that costs. The machine's has done so already.
    fn drafted(&self, visits: Visits) {
        let _ = visits;
    }
}

/// The clock of the machine.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self {
            started: Instant::now(),
        }
    }
}

impl Clock for SystemClock {
    fn now_s(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }
}

/// A clock that goes on by so many milliseconds whenever it is read.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct Ticking {
    tick_ms: u64,
    ticks: std::sync::atomic::AtomicU64,
}

#[cfg(test)]
impl Ticking {
    pub(crate) fn by(tick_ms: u64) -> Self {
        let ticks = std::sync::atomic::AtomicU64::new(0);
        Self { tick_ms, ticks }
    }
}

#[cfg(test)]
impl Clock for Ticking {
    fn now_s(&self) -> f64 {
        let ticks = self
            .ticks
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        (ticks * self.tick_ms) as f64 / 1e3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_does_not_go_back() {
        let clock = SystemClock::default();
        let times = [clock.now_s(), clock.now_s(), clock.now_s()];
        assert!(times.is_sorted() && times[0] >= 0.0, "{times:?}");
    }
}
