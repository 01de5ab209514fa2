//! Where a choice is between its start and its end.

use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use crate::error::RequestError;
use crate::workers::ChoiceGuard;

/// How often a choice that must be alone looks for an idle worker.
const ALONE_TICK: Duration = Duration::from_millis(20);

/// Where a choice is.
#[derive(Debug)]
pub(in crate::generation) enum Place {
    /// With a worker.
    On(ChoiceGuard),
    /// Without a worker.
    Waiting(Waiting),
    /// It has ended.
    Done,
}

impl Place {
    /// What holds the choice at its worker, while it is with one.
    pub(in crate::generation) fn guard(&self) -> Option<&ChoiceGuard> {
        match self {
            Self::On(guard) => Some(guard),
            Self::Waiting(_) | Self::Done => None,
        }
    }
}

/// A choice's wait for its next worker.
#[derive(Debug)]
pub(in crate::generation) struct Waiting {
    /// Since when.
    pub(in crate::generation) since: Instant,
    /// Before which it is not placed.
    pub(in crate::generation) not_before: Instant,
    /// Where the registry says that it placed the choice, once it was asked.
    pub(in crate::generation) placed: Option<oneshot::Receiver<ChoiceGuard>>,
    /// A worker that others are preferred to.
    pub(in crate::generation) avoid: Option<String>,
    /// Whether that one failed the choice.
    pub(in crate::generation) has_failed_there: bool,
    /// Whether it must be alone.
    pub(in crate::generation) alone: bool,
    /// What the last worker said, if it said anything.
    pub(in crate::generation) error: Option<RequestError>,
}

impl Waiting {
    /// A wait that begins, of a choice that any worker may take; that goes on `alone` there or not.
    pub(in crate::generation) fn new(now: Instant, alone: bool) -> Self {
        Self {
            since: now,
            not_before: now,
            placed: None,
            avoid: None,
            has_failed_there: false,
            alone,
            error: None,
        }
    }
}

/// What a look at a wait gives.
#[derive(Debug)]
pub(in crate::generation) enum Look {
    /// It is placed.
    Placed(ChoiceGuard),
    /// The registry is to be asked.
    Ask,
    /// It goes on.
    Wait,
    /// No worker will come: other weights are served.
    Closed,
}

impl Waiting {
    /// When to look again, at the latest.
    pub(in crate::generation) fn wakes_at(&self, now: Instant) -> Option<Instant> {
        match &self.placed {
            None => Some(self.not_before),
            Some(_) if self.alone => Some(now + ALONE_TICK),
            Some(_) => None,
        }
    }

    /// Whether anything has happened by `now`.
    pub(in crate::generation) fn look(&mut self, now: Instant) -> Look {
        match self.placed.as_mut().map(oneshot::Receiver::try_recv) {
            Some(Ok(guard)) => Look::Placed(guard),
            Some(Err(TryRecvError::Closed)) => Look::Closed,
            None if now >= self.not_before => Look::Ask,
            Some(Err(TryRecvError::Empty)) | None => Look::Wait,
        }
    }
}
