//! Whose turn it is in an answer: ours to go on, or its client's to take what was given.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// What times are counted from.
static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Since when an answer waits for its client, if it does. Cheap to clone; clones are one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turn(Arc<AtomicU64>);

impl Turn {
    /// Until something is sent it is ours.
    pub(super) fn set_ours(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// The client has more to take from now on.
    pub(super) fn set_clients(&self) {
        let micros = u64::try_from(BEGIN.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.0.store(micros.max(1), Ordering::Relaxed);
    }

    /// How long the client has taken nothing; none where it is not its turn.
    pub(super) fn unread(&self, now: Instant) -> Option<Duration> {
        let since = *BEGIN + Duration::from_micros(self.begun()?);
        Some(now.saturating_duration_since(since))
    }

    /// When the client's turn began; none where it is not its turn. Each turn has another time.
    pub(super) fn begun(&self) -> Option<u64> {
        let micros = self.0.load(Ordering::Relaxed);
        (micros != 0).then_some(micros)
    }

    /// Whether both are one.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
