//! Waiting for a worker that is loading or restarting.

use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::refusal::{RETRY_DELAY, shutting_down};
use super::waiting::{Line, Place};
use crate::error::{ErrorKind, RequestError};
use crate::sync::now;

/// How long one request may wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// From the first wait on.
    pub(crate) limit: Duration,
    /// Of the request.
    pub(crate) deadline: Instant,
}

/// One request's wait. It holds a place among the waiting from the first time it waits.
#[derive(Debug)]
pub(crate) struct Wait<'a> {
    changes: watch::Receiver<u64>,
    draining: &'a CancellationToken,
    line: Line<'a>,
    bounds: Bounds,
    /// When the wait ends, and its place, once it has begun.
    begun: Option<(Instant, Place<'a>)>,
}

impl<'a> Wait<'a> {
    pub(super) fn new(
        changes: watch::Receiver<u64>,
        draining: &'a CancellationToken,
        line: Line<'a>,
        bounds: Bounds,
    ) -> Self {
        Self {
            changes,
            draining,
            line,
            bounds,
            begun: None,
        }
    }

    /// Begins a look at the registry: changes from now on end the next wait.
    pub(crate) fn begin_look(&mut self) {
        self.changes.mark_unchanged();
    }

    /// Waits for a change of the registry; the request holds `num_bytes` meanwhile.
    ///
    /// # Errors
    /// Too many wait, or too large ones, the wait or the deadline is over, or the router drains.
    pub(crate) async fn next(
        &mut self,
        num_bytes: impl FnOnce() -> usize,
    ) -> Result<(), RequestError> {
        let until = match &self.begun {
            Some((until, _)) => *until,
            None => self.begin(num_bytes())?,
        };
        let end = tokio::time::Instant::from_std(until.min(self.bounds.deadline));
        let changed = tokio::select! {
            changed = tokio::time::timeout_at(end, self.changes.changed()) => changed.is_ok(),
            () = self.draining.cancelled() => return Err(shutting_down()),
        };
        if changed {
            return Ok(());
        }
        if now() >= self.bounds.deadline {
            let message = "the deadline passed before a worker was ready";
            return Err(RequestError::new(ErrorKind::DeadlineExceeded, message));
        }
        let message = format!(
            "no worker was ready within {} s",
            self.bounds.limit.as_secs_f64()
        );
        Err(RequestError::retry(
            ErrorKind::Unavailable,
            message,
            RETRY_DELAY,
        ))
    }

    fn begin(&mut self, num_bytes: usize) -> Result<Instant, RequestError> {
        let place = self.line.enter(num_bytes)?;
        let until = now() + self.bounds.limit;
        self.begun = Some((until, place));
        Ok(until)
    }
}
