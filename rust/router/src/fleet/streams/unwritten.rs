//! Streams of which Redis has not all.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::fleet::records::entry::Entry;
use crate::fleet::records::table::Streams;
use crate::sync::now;

/// Time until a stream is asked again for what Redis has not.
const RETRY: Duration = Duration::from_secs(1);

/// Streams that are to be asked for their whole records.
#[derive(Default)]
pub(super) struct Unwritten {
    waiting: VecDeque<Arc<Entry>>,
    /// None where it was not looked yet since Redis may have lost some.
    looked: Option<Instant>,
}

impl Unwritten {
    pub(super) fn look(streams: &Streams) -> Self {
        Self {
            waiting: streams.unwritten(),
            looked: Some(now()),
        }
    }

    /// Whether it is time to look: Redis may take what it refused.
    pub(super) fn is_old(&self) -> bool {
        let age = |at| now().saturating_duration_since(at);
        self.looked.is_none_or(|at| age(at) >= RETRY)
    }

    /// Asks up to `count`: together, thousands would write their records down at once.
    pub(super) fn ring(&mut self, count: usize) {
        for entry in self.waiting.drain(..count.min(self.waiting.len())) {
            entry.ring();
        }
    }
}
