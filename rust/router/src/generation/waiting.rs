//! The places of requests that wait for a worker.

use std::sync::{Arc, Mutex};

use spectrie_types::Holdings;

use super::refusal::{RETRY_DELAY, held};
use crate::error::{ErrorKind, RequestError};
use crate::sync::lock;

/// Who counts where no keys are set.
const EVERYONE: &str = "";

/// Places of all tenants: [`Holdings`] says who may have another one.
#[derive(Debug)]
pub(crate) struct Waiting {
    held: Mutex<Holdings>,
    max_waiting: usize,
}

/// Where the requests of one tenant wait.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    waiting: &'a Waiting,
    tenant: Arc<str>,
}

impl Waiting {
    pub(super) fn new(max_waiting: usize) -> Self {
        Self {
            held: Mutex::default(),
            max_waiting,
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
    /// Takes a place until it is dropped.
    ///
    /// # Errors
    /// [`ErrorKind::QueueFull`] when the tenant has as many as it may have beside others.
    pub(super) fn enter(&self) -> Result<Place<'a>, RequestError> {
        let waiting = self.waiting;
        let limit = waiting.max_waiting;
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
        Ok(Place { waiting, tenant })
    }
}

/// Held while a request waits.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    waiting: &'a Waiting,
    tenant: Arc<str>,
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
        let waiting = Waiting::new(4);
        let (ann, bob) = (waiting.of(Some("ann")), waiting.of(Some("bob")));
        let held: Vec<_> = (0..4).map(|_| ann.enter().unwrap()).collect();
        assert_eq!(ann.enter().unwrap_err().kind, ErrorKind::QueueFull);
        let places = [bob.enter().unwrap(), bob.enter().unwrap()];
        let error = bob.enter().unwrap_err();
        assert!(error.message.contains("up to 2 while others"), "{error}");
        drop(places);
        drop(held);
        assert!(ann.enter().is_ok());
    }

    #[test]
    fn line_without_places_takes_no_request() {
        assert!(Waiting::new(0).of(None).enter().is_err());
    }
}
