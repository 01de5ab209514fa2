//! Times between two forwards.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Gaps that are kept, each from the end of a forward to the start of the next one.
const KEPT: usize = 1024;

/// The last gaps, and the sum of all.
#[derive(Debug)]
pub(super) struct Gaps {
    last_ms: VecDeque<f32>,
    total: Duration,
    /// When the last forward ended; `None` if work ran out since.
    ended: Option<Instant>,
}

impl Default for Gaps {
    fn default() -> Self {
        Self {
            last_ms: VecDeque::with_capacity(KEPT),
            total: Duration::ZERO,
            ended: None,
        }
    }
}

impl Gaps {
    /// A forward starts.
    pub(super) fn close(&mut self, started: Instant) {
        let Some(ended) = self.ended.take() else {
            return;
        };
        let gap = started.saturating_duration_since(ended);
        self.total += gap;
        if self.last_ms.len() == KEPT {
            self.last_ms.pop_front();
        }
        self.last_ms.push_back(gap.as_secs_f32() * 1e3);
    }

    /// A forward ended.
    pub(super) fn open(&mut self, ended: Instant) {
        self.ended = Some(ended);
    }

    /// Work ran out: what follows is no gap.
    pub(super) fn drop_open(&mut self) {
        self.ended = None;
    }

    /// The last gaps in milliseconds, oldest first.
    pub(super) fn last_ms(&self) -> Vec<f32> {
        self.last_ms.iter().copied().collect()
    }

    /// Sum of all gaps.
    pub(super) fn total(&self) -> Duration {
        self.total
    }
}
