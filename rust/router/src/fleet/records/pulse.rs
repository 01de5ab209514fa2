//! Whether this router ran all the time: one that was stopped may have lost its streams to others.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::sync::now;

/// A gap after which others may have taken streams over: half of the lease, which is renewed four times
/// in its life.
const DOUBTFUL: Duration = Duration::from_millis(400);
/// How long a stream waits at most to hear that it is still this router's.
const PATIENCE: Duration = Duration::from_secs(1);

/// A router's pulse.
#[derive(Debug)]
pub(crate) struct Pulse {
    begun: Instant,
    /// Milliseconds since `begun`.
    last: AtomicU64,
    doubt: AtomicBool,
    /// Rings when doubt ends.
    sure: Notify,
    /// Whether Redis is to be asked which streams are this router's.
    must_ask: AtomicBool,
}

impl Default for Pulse {
    fn default() -> Self {
        Self {
            begun: now(),
            last: AtomicU64::new(0),
            doubt: AtomicBool::new(false),
            sure: Notify::new(),
            must_ask: AtomicBool::new(false),
        }
    }
}

impl Pulse {
    fn now_ms(&self) -> u64 {
        u64::try_from(now().saturating_duration_since(self.begun).as_millis()).unwrap_or(u64::MAX)
    }

    /// Beats; a router that has not for long doubts from now on.
    pub(crate) fn beat(&self) {
        self.is_doubtful();
        self.last.store(self.now_ms(), Ordering::Relaxed);
    }

    /// Whether others may have taken over what was this router's.
    pub(crate) fn is_doubtful(&self) -> bool {
        if self.doubt.load(Ordering::Relaxed) {
            return true;
        }
        let gap = self
            .now_ms()
            .saturating_sub(self.last.load(Ordering::Relaxed));
        let is_late = u128::from(gap) > DOUBTFUL.as_millis();
        if is_late {
            // Before the next beat hides it.
            self.must_ask.store(true, Ordering::Relaxed);
            self.doubt.store(true, Ordering::Relaxed);
        }
        is_late
    }

    /// It is known again which streams are this router's, or cannot be known now.
    pub(crate) fn is_sure(&self) {
        self.must_ask.store(false, Ordering::Relaxed);
        self.end_doubt();
    }

    /// Whether Redis is to be asked which streams are this router's.
    pub(crate) fn must_ask(&self) -> bool {
        self.is_doubtful() || self.must_ask.load(Ordering::Relaxed)
    }

    fn end_doubt(&self) {
        self.last.store(self.now_ms(), Ordering::Relaxed);
        self.doubt.store(false, Ordering::Relaxed);
        self.sure.notify_waiters();
    }

    /// Waits while it is not known which streams are this router's: a second at most.
    pub(crate) async fn assured(&self) {
        if !self.is_doubtful() {
            return;
        }
        let sure = async {
            loop {
                let rings = self.sure.notified();
                if !self.doubt.load(Ordering::Relaxed) {
                    return;
                }
                rings.await;
            }
        };
        if tokio::time::timeout(PATIENCE, sure).await.is_err() {
            // What does not answer in time is not waited for again at each message; it is still asked.
            self.end_doubt();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn router_that_was_stopped_doubts_until_it_is_sure_again() {
        let begun = Instant::now().checked_sub(Duration::from_secs(60));
        let pulse = Pulse {
            begun: begun.unwrap(),
            ..Pulse::default()
        };
        // As if it had beaten a minute ago; the next beat does not hide it.
        pulse.beat();
        assert!(pulse.is_doubtful());
        pulse.is_sure();
        assert!(!pulse.doubt.load(Ordering::Relaxed));
    }

    #[tokio::test(start_paused = true)]
    async fn doubt_that_no_one_can_end_is_waited_for_once() {
        let pulse = Pulse::default();
        pulse.must_ask.store(true, Ordering::Relaxed);
        pulse.doubt.store(true, Ordering::Relaxed);
        pulse.assured().await;
        assert!(!pulse.doubt.load(Ordering::Relaxed));
        assert!(pulse.must_ask());
    }
}
