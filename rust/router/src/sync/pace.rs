//! How fast what is held ends: the time that a caller is asked to wait follows from it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Ends that are remembered: enough that a burst among them says little.
const NUM_ENDS: usize = 64;

/// Shortest and longest time that a refused caller is asked to wait: in less than a second little
/// changes, and clients in use take no advice beyond one minute.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// After what time `count` will have ended, at so many in a second.
pub(crate) fn time_for(count: usize, rate: f64) -> Duration {
    let wait = Duration::try_from_secs_f64(count as f64 / rate).unwrap_or(LONGEST_WAIT);
    wait.clamp(SHORTEST_WAIT, LONGEST_WAIT)
}

/// Ends since there last was nothing to do.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    since: Option<Instant>,
    ends: VecDeque<Instant>,
}

impl Pace {
    /// Work begins after a time without any.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.since = Some(now);
        self.ends.clear();
    }

    /// Something ended.
    pub(crate) fn ended(&mut self, now: Instant) {
        if self.ends.len() == NUM_ENDS {
            self.since = self.ends.pop_front();
        }
        self.ends.push_back(now);
    }

    /// Ends in a second, if the next one comes right now: where nothing ended yet it is no
    /// faster than that, and how much slower it is nothing can say. 0 before any work.
    pub(crate) fn rate(&self, now: Instant) -> f64 {
        let Some(since) = self.since else { return 0.0 };
        let seconds = now.saturating_duration_since(since).as_secs_f64();
        (self.ends.len() + 1) as f64 / seconds.max(f64::EPSILON)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn rate_follows_the_latest_ends_and_forgets_idle_times() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut pace = Pace::default();
        assert_eq!(pace.rate(at(5)).to_bits(), 0.0_f64.to_bits());
        pace.begin(at(0));
        assert!((pace.rate(at(20)) - 0.05).abs() < 1e-9, "nothing ended yet");
        for second in 1..=1000 {
            pace.ended(at(second));
        }
        assert!((pace.rate(at(1001)) - 1.0).abs() < 1e-9);
        // Slower from now on: 64 ends in 640 s.
        for count in 1..=65 {
            pace.ended(at(1000 + 10 * count));
        }
        assert!((pace.rate(at(1660)) - 0.1).abs() < 0.01);
        pace.begin(at(100_000));
        assert!((pace.rate(at(100_001)) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn waits_are_from_a_second_to_a_minute() {
        let seconds = |count, rate| time_for(count, rate).as_secs_f64();
        assert!((seconds(6, 0.5) - 12.0).abs() < 1e-9);
        assert!((seconds(1, 100.0) - 1.0).abs() < 1e-9);
        for rate in [0.0, 1e-12, f64::NAN] {
            assert!((seconds(1, rate) - 60.0).abs() < 1e-9, "{rate}");
        }
    }
}
