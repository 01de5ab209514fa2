//! Bytes of request bodies that have begun and not ended, bounded over all connections and by each.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::error::{ErrorKind, RequestError};

/// What a body costs before its first byte: its stream, its buffers, its timer. Three thousand calls with
/// half bodies took 10.8 KB each.
const BASE_BYTES: usize = 12 << 10;
/// A connection may always hold this part of the bound, where the others leave it.
const LEAST_PART: usize = 8;
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

    /// Begins a body of at most `largest` bytes. Those of its connection, which `connection` counts, may hold
    /// as much as is free, so half of the bound where they are alone; an eighth of it in any case, or as much
    /// as this one needs. A client that begins many calls at once sends their headers before their bodies.
    ///
    /// # Errors
    /// [`ErrorKind::QueueFull`] when the others leave no room for it.
    pub(crate) fn begin(
        &self,
        connection: Option<&Arc<AtomicUsize>>,
        largest: usize,
    ) -> Result<BodyShare, RequestError> {
        let least = largest.saturating_add(BASE_BYTES);
        let mut share = BodyShare {
            bodies: self.clone(),
            connection: connection.cloned().unwrap_or_default(),
            least_limit: (self.limit / LEAST_PART).max(least),
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
    /// What the unfinished bodies of its connection hold.
    connection: Arc<AtomicUsize>,
    /// What those may hold in any case.
    least_limit: usize,
    num_bytes: usize,
}

impl BodyShare {
    /// Counts bytes that arrived.
    ///
    /// # Errors
    /// [`ErrorKind::QueueFull`] when they are more than the others leave; nothing is counted then.
    pub(crate) fn add(&mut self, num_bytes: usize) -> Result<(), RequestError> {
        let limit = self.bodies.limit;
        let free = limit.saturating_sub(self.bodies.held.load(Ordering::Relaxed));
        let own_limit = free.max(self.least_limit);
        if !add(&self.connection, num_bytes, own_limit) {
            return Err(full("of this connection", own_limit));
        }
        if !add(&self.bodies.held, num_bytes, limit) {
            self.connection.fetch_sub(num_bytes, Ordering::Relaxed);
            return Err(full("of all connections", limit));
        }
        self.num_bytes += num_bytes;
        Ok(())
    }
}

/// Adds to what is held, unless that is too much.
fn add(held: &AtomicUsize, num_bytes: usize, limit: usize) -> bool {
    let added = held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
        held.checked_add(num_bytes).filter(|sum| *sum <= limit)
    });
    added.is_ok()
}

fn full(whose: &str, limit: usize) -> RequestError {
    let message = format!("unfinished request bodies {whose} hold their limit of {limit} bytes");
    RequestError::retry(ErrorKind::QueueFull, message, RETRY_DELAY)
}

impl Drop for BodyShare {
    fn drop(&mut self) {
        for held in [&self.bodies.held, &self.connection] {
            held.fetch_sub(self.num_bytes, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_share_one_bound_and_give_back_what_they_held() {
        let bodies = Bodies::new(3 * BASE_BYTES, Duration::from_secs(1));
        let begin = || bodies.begin(None, 4 * BASE_BYTES);
        let mut first = begin().unwrap();
        first.add(BASE_BYTES).unwrap();
        let second = begin().unwrap();
        assert_eq!(first.add(1).unwrap_err().kind, ErrorKind::QueueFull);
        let message = begin().unwrap_err().message;
        assert!(message.contains("limit of 36864 bytes"), "{message}");
        drop(second);
        first.add(BASE_BYTES).unwrap();
        drop(first);
        assert_eq!(bodies.held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn one_connection_fills_no_more_than_others_leave_free_or_one_body() {
        let bodies = Bodies::new(80 * BASE_BYTES, Duration::from_secs(1));
        let (one, other) = <(Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
        let small = || bodies.begin(Some(&one), 1);
        let mut held: Vec<_> = (0..40).map(|_| small().unwrap()).collect();
        let message = small().unwrap_err().message;
        assert!(message.contains("of this connection"), "{message}");
        assert!(bodies.begin(Some(&other), 1).is_ok());
        held.pop();
        assert!(small().is_ok());
        // A body as large as the bound allows has room, alone on its connection.
        drop(held);
        let mut large = bodies.begin(Some(&one), 40 * BASE_BYTES).unwrap();
        large.add(40 * BASE_BYTES).unwrap();
        assert!(large.add(1).is_err());
        drop(large);
        assert_eq!(one.load(Ordering::Relaxed), 0);
        assert_eq!(bodies.held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn four_connections_at_least_fill_the_bound_of_all() {
        let bodies = Bodies::new(80 * BASE_BYTES, Duration::from_secs(1));
        let mut held = Vec::new();
        let counts = [(); 5].map(|()| {
            let own = Arc::default();
            let begun: Vec<_> = std::iter::from_fn(|| bodies.begin(Some(&own), 1).ok()).collect();
            let count = begun.len();
            held.push(begun);
            count
        });
        assert_eq!(counts, [40, 20, 10, 10, 0]);
    }
}
