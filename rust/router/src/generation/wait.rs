//! Waiting for a worker that is loading or restarting.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::refusal::RETRY_DELAY;
use crate::error::{ErrorKind, RequestError};

/// How long one request may wait, and beside how many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) max_waiting: usize,
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
    num_waiting: &'a AtomicUsize,
    bounds: Bounds,
    /// When the wait ends, once it has begun.
    until: Option<Instant>,
}

impl<'a> Wait<'a> {
    pub(super) fn new(
        changes: watch::Receiver<u64>,
        draining: &'a CancellationToken,
        num_waiting: &'a AtomicUsize,
        bounds: Bounds,
    ) -> Self {
        Self {
            changes,
            draining,
            num_waiting,
            bounds,
            until: None,
        }
    }

    /// Begins a look at the registry: changes from now on end the next wait.
    pub(crate) fn begin_look(&mut self) {
        self.changes.mark_unchanged();
    }

    /// Waits for a change of the registry.
    ///
    /// # Errors
    /// Too many wait, the wait or the deadline is over, or the router drains.
    pub(crate) async fn next(&mut self) -> Result<(), RequestError> {
        let until = match self.until {
            Some(until) => until,
            None => self.take_place()?,
        };
        let end = tokio::time::Instant::from_std(until.min(self.bounds.deadline));
        let changed = tokio::select! {
            changed = tokio::time::timeout_at(end, self.changes.changed()) => changed.is_ok(),
            () = self.draining.cancelled() => {
                let message = "the server is shutting down";
                return Err(RequestError::retry(ErrorKind::Unavailable, message, RETRY_DELAY));
            }
        };
        if changed {
            return Ok(());
        }
        if Instant::now() >= self.bounds.deadline {
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

    fn take_place(&mut self) -> Result<Instant, RequestError> {
        let waiting = self.num_waiting.fetch_add(1, Ordering::Relaxed);
        let until = Instant::now() + self.bounds.limit;
        self.until = Some(until);
        if waiting >= self.bounds.max_waiting {
            let max = self.bounds.max_waiting;
            let message = format!("{waiting} requests wait for a worker; allowed: up to {max}");
            return Err(RequestError::retry(
                ErrorKind::QueueFull,
                message,
                RETRY_DELAY,
            ));
        }
        Ok(until)
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if self.until.is_some() {
            self.num_waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
