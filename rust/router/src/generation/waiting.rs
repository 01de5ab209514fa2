//! The places of requests that wait for a worker, and the bytes that these hold.

use std::sync::{Arc, Mutex};

use spectrie_types::Holdings;

use super::refusal::{RETRY_DELAY, held};
use crate::access::{Room, RoomShare};
use crate::error::{ErrorKind, RequestError};
use crate::sync::lock;

/// Who counts where no keys are set.
const EVERYONE: &str = "";

/// Places of all tenants: [`Holdings`] says who may have another one, and [`Room`] for how large a
/// request.
#[derive(Debug)]
pub(crate) struct Waiting {
    held: Mutex<Holdings>,
    limit: usize,
    room: Room,
}

/// Where the requests of one tenant wait.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    waiting: &'a Waiting,
    tenant: Arc<str>,
}

impl Waiting {
    /// At most `max_waiting` wait, and hold about `max_bytes`.
    pub(super) fn new(max_waiting: usize, max_bytes: usize) -> Self {
        Self {
            held: Mutex::default(),
            limit: max_waiting,
            room: Room::new(max_bytes),
        }
    }

    /// How many wait.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        lock(&self.held).total()
    }

    pub(super) fn of(&self, tenant: Option<&str>) -> Line<'_> {
        Line {
            waiting: self,
            tenant: tenant.unwrap_or(EVERYONE).into(),
        }
    }
}

impl<'a> Line<'a> {
    /// Takes a place for a request of `num_bytes`, until it is dropped.
    ///
    /// # Errors
    /// [`ErrorKind::QueueFull`] when the tenant has as many as it may have beside others, or as large ones.
    pub(super) fn enter(&self, num_bytes: usize) -> Result<Place<'a>, RequestError> {
        let waiting = self.waiting;
        let what = "requests that wait for a worker";
        let room = waiting.room.hold(Some(&self.tenant), num_bytes, what)?;
        let limit = waiting.limit;
        let mut places = lock(&waiting.held);
        let standing = places.standing(&self.tenant);
        if limit == 0 || standing.excess(1, limit, 0) > 0 {
            let share = standing.share(limit).min(limit);
            let message = held(standing.own, "requests wait for a worker", share, limit);
            return Err(RequestError::retry(
                ErrorKind::QueueFull,
                message,
                RETRY_DELAY,
            ));
        }
        let tenant = places.add(&self.tenant, 1);
        Ok(Place {
            waiting,
            tenant,
            _room: room,
        })
    }
}

/// Held while a request waits.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    waiting: &'a Waiting,
    tenant: Arc<str>,
    _room: RoomShare,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        lock(&self.waiting.held).take(&self.tenant, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenant_that_fills_the_line_keeps_no_other_out() {
        let waiting = Waiting::new(4, 1 << 20);
        let (ann, bob) = (waiting.of(Some("ann")), waiting.of(Some("bob")));
        let held: Vec<_> = (0..4).map(|_| ann.enter(1).unwrap()).collect();
        assert_eq!(ann.enter(1).unwrap_err().kind, ErrorKind::QueueFull);
        let places = [bob.enter(1).unwrap(), bob.enter(1).unwrap()];
        let error = bob.enter(1).unwrap_err();
        assert!(error.message.contains("up to 2 while others"), "{error}");
        drop(places);
        drop(held);
        assert!(ann.enter(1).is_ok());
    }

    #[test]
    fn line_without_places_takes_no_request() {
        assert!(Waiting::new(0, 1 << 20).of(None).enter(1).is_err());
    }

    #[test]
    fn line_has_room_for_small_requests_beside_large_ones() {
        let waiting = Waiting::new(100, 1 << 20);
        let (ann, bob) = (waiting.of(Some("ann")), waiting.of(Some("bob")));
        let large = || ann.enter(100 << 10);
        let held: Vec<_> = std::iter::from_fn(|| large().ok()).collect();
        assert_eq!(held.len(), 8);
        let error = large().unwrap_err();
        assert_eq!(error.kind, ErrorKind::QueueFull);
        assert!(error.retry_after.is_some());
        let begin = "requests that wait for a worker hold 819200 bytes, yours 819200";
        assert!(error.message.starts_with(begin), "{error}");
        assert!(ann.enter(1 << 10).is_ok());
        let of_bob = [bob.enter(100 << 10).unwrap(), bob.enter(100 << 10).unwrap()];
        drop((held, of_bob));
        assert_eq!(waiting.room.total(), 0);
    }
}
