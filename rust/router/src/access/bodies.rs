//! Bytes of request bodies that have begun and not ended, bounded over all connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::error::{ErrorKind, RequestError};

/// What a body costs before its first byte: its stream, its buffers, its timer.
const BASE_BYTES: usize = 16 << 10;
/// How long a caller is asked to wait when too much is arriving.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// How many bytes unfinished bodies hold, and how many they may. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Bodies {
    held: Arc<AtomicUsize>,
    limit: usize,
    timeout: Duration,
}

impl Bodies {
    /// Nothing held yet; at most `limit` bytes, each body for at most `timeout`.
    pub(crate) fn new(limit: usize, timeout: Duration) -> Self {
        Self {
            held: Arc::default(),
            limit,
            timeout,
        }
    }

    /// How long a whole body may take to arrive.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Begins a body.
    ///
    /// # Errors
    /// [`ErrorKind::QueueFull`] when the others leave no room for it.
    pub(crate) fn begin(&self) -> Result<BodyShare, RequestError> {
        let mut share = BodyShare {
            bodies: self.clone(),
            num_bytes: 0,
        };
        share.add(BASE_BYTES)?;
        Ok(share)
    }
}

/// What one body holds, given back when dropped.
#[derive(Debug)]
pub(crate) struct BodyShare {
    bodies: Bodies,
    num_bytes: usize,
}

impl BodyShare {
    /// Counts bytes that arrived.
    ///
    /// # Errors
    /// [`ErrorKind::QueueFull`] when they are more than the others leave; nothing is counted then.
    pub(crate) fn add(&mut self, num_bytes: usize) -> Result<(), RequestError> {
        let Bodies { held, limit, .. } = &self.bodies;
        let added = held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
            held.checked_add(num_bytes).filter(|sum| sum <= limit)
        });
        if added.is_err() {
            let message =
                format!("unfinished request bodies hold their limit of {limit} bytes together");
            return Err(RequestError::retry(
                ErrorKind::QueueFull,
                message,
                RETRY_DELAY,
            ));
        }
        self.num_bytes += num_bytes;
        Ok(())
    }
}

impl Drop for BodyShare {
    fn drop(&mut self) {
        self.bodies
            .held
            .fetch_sub(self.num_bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_share_one_bound_and_give_back_what_they_held() {
        let bodies = Bodies::new(3 * BASE_BYTES, Duration::from_secs(1));
        let mut first = bodies.begin().unwrap();
        first.add(BASE_BYTES).unwrap();
        let second = bodies.begin().unwrap();
        assert_eq!(first.add(1).unwrap_err().kind, ErrorKind::QueueFull);
        let message = bodies.begin().unwrap_err().message;
        assert!(message.contains("limit of 49152 bytes"), "{message}");
        drop(second);
        first.add(BASE_BYTES).unwrap();
        drop(first);
        assert_eq!(bodies.held.load(Ordering::Relaxed), 0);
    }
}
