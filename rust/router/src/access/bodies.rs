//! Bytes of request bodies that have begun and not ended, bounded over all and by each tenant or connection.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::error::{ErrorKind, RequestError};
use crate::sync::lock;

/// What a body costs before its first byte: its stream, its buffers, its timer. Three thousand calls with
/// half bodies took 10.8 KB each.
const BASE_BYTES: usize = 12 << 10;
/// A connection, or a tenant, may always hold this part of the bound, where the others leave it.
const LEAST_PART: usize = 8;
/// What a connection may hold whatever the others do: a probe, or a short prompt. A connection costs more itself,
/// and their number is bounded.
const SURE_BYTES: usize = BASE_BYTES + (4 << 10);
/// Bytes of unfinished calls that need no key, over all connections.
pub(crate) const MAX_OPEN_BYTES: usize = 4 << 20;
/// How long a caller is asked to wait when too much is arriving.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// How many bytes unfinished bodies hold, and how many they may. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Bodies {
    held: Arc<AtomicUsize>,
    /// By tenant, as long as any of its bodies is unfinished.
    tenants: Arc<Mutex<HashMap<String, Arc<AtomicUsize>>>>,
    limit: usize,
    timeout: Duration,
}

impl Bodies {
    /// Nothing held yet; at most `limit` bytes, each body for at most `timeout`.
    pub(crate) fn new(limit: usize, timeout: Duration) -> Self {
        Self {
            held: Arc::default(),
            tenants: Arc::default(),
            limit,
            timeout,
        }
    }

    /// How long a whole body may take to arrive.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Begins a body of at most `largest` bytes. Those of its tenant, or where there is none of its connection,
    /// which `connection` counts, may hold as much as is free, so half of the bound where they are alone; an
    /// eighth of it in any case, or as much as this one needs. A client that begins many calls at once sends
    /// their headers before their bodies.
    ///
    /// # Errors
    /// [`ErrorKind::QueueFull`] when the others leave no room for it.
    pub(crate) fn begin(
        &self,
        connection: Option<&Arc<AtomicUsize>>,
        tenant: Option<&str>,
        largest: usize,
    ) -> Result<BodyShare, RequestError> {
        let least = largest.saturating_add(BASE_BYTES);
        let mut share = BodyShare {
            bodies: self.clone(),
            connection: connection.cloned().unwrap_or_default(),
            tenant: tenant.map(|tenant| self.of_tenant(tenant)),
            least_limit: (self.limit / LEAST_PART).max(least),
            num_bytes: 0,
        };
        share.add(BASE_BYTES)?;
        Ok(share)
    }

    fn of_tenant(&self, tenant: &str) -> Arc<AtomicUsize> {
        let mut tenants = lock(&self.tenants);
        if let Some(count) = tenants.get(tenant) {
            return count.clone();
        }
        tenants.retain(|_, count| Arc::strong_count(count) > 1);
        tenants.entry(tenant.to_owned()).or_default().clone()
    }
}

/// What one body holds, given back when dropped.
#[derive(Debug)]
pub(crate) struct BodyShare {
    bodies: Bodies,
    /// What the unfinished bodies of its connection hold.
    connection: Arc<AtomicUsize>,
    /// What those of its tenant hold.
    tenant: Option<Arc<AtomicUsize>>,
    /// What those of its tenant, or else of its connection, may hold in any case.
    least_limit: usize,
    num_bytes: usize,
}

impl BodyShare {
    /// Counts bytes that arrived.
    ///
    /// # Errors
    /// [`ErrorKind::QueueFull`] when they are more than the others leave; nothing is counted then.
    pub(crate) fn add(&mut self, num_bytes: usize) -> Result<(), RequestError> {
        if add(&self.connection, num_bytes, SURE_BYTES) {
            for held in self.others() {
                held.fetch_add(num_bytes, Ordering::Relaxed);
            }
        } else {
            self.add_more(num_bytes)?;
        }
        self.num_bytes += num_bytes;
        Ok(())
    }

    /// Counts what is more than a connection may hold in any case.
    fn add_more(&self, num_bytes: usize) -> Result<(), RequestError> {
        let limit = self.bodies.limit;
        let free = limit.saturating_sub(self.bodies.held.load(Ordering::Relaxed));
        let own_limit = free.max(self.least_limit);
        let (own, whose) = match &self.tenant {
            Some(tenant) => (tenant, "of this tenant"),
            None => (&self.connection, "of this connection"),
        };
        if !add(own, num_bytes, own_limit) {
            return Err(full(whose, own_limit));
        }
        if !add(&self.bodies.held, num_bytes, limit) {
            own.fetch_sub(num_bytes, Ordering::Relaxed);
            return Err(full("of all connections", limit));
        }
        if self.tenant.is_some() {
            self.connection.fetch_add(num_bytes, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Where it is counted beside its connection.
    fn others(&self) -> impl Iterator<Item = &AtomicUsize> {
        let tenant = self.tenant.iter().map(Arc::as_ref);
        tenant.chain([self.bodies.held.as_ref()])
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
        for held in self.others().chain([self.connection.as_ref()]) {
            held.fetch_sub(self.num_bytes, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bodies(num_bases: usize) -> Bodies {
        Bodies::new(num_bases * BASE_BYTES, Duration::from_secs(1))
    }

    /// How many small bodies a connection can begin, which are held from then on.
    fn fill(
        bodies: &Bodies,
        connection: &Arc<AtomicUsize>,
        tenant: Option<&str>,
    ) -> Vec<BodyShare> {
        std::iter::from_fn(|| bodies.begin(Some(connection), tenant, 1).ok()).collect()
    }

    #[test]
    fn bodies_share_one_bound_and_give_back_what_they_held() {
        let bodies = bodies(12);
        let mut first = bodies.begin(None, None, 20 * BASE_BYTES).unwrap();
        first.add(9 * BASE_BYTES).unwrap();
        let mut second = bodies.begin(None, None, 20 * BASE_BYTES).unwrap();
        second.add(BASE_BYTES).unwrap();
        assert_eq!(first.add(1).unwrap_err().kind, ErrorKind::QueueFull);
        let message = second.add(BASE_BYTES).unwrap_err().message;
        assert!(message.contains("limit of 147456 bytes"), "{message}");
        drop(second);
        first.add(BASE_BYTES).unwrap();
        drop(first);
        assert_eq!(bodies.held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn one_connection_fills_no_more_than_others_leave_free_or_one_body() {
        let bodies = bodies(80);
        let (one, other) = <(Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
        let small = || bodies.begin(Some(&one), None, 1);
        let mut held: Vec<_> = (0..40).map(|_| small().unwrap()).collect();
        let message = small().unwrap_err().message;
        assert!(message.contains("of this connection"), "{message}");
        assert!(bodies.begin(Some(&other), None, 1).is_ok());
        held.pop();
        assert!(small().is_ok());
        // A body as large as the bound allows has room, alone on its connection.
        drop(held);
        let mut large = bodies.begin(Some(&one), None, 40 * BASE_BYTES).unwrap();
        large.add(40 * BASE_BYTES).unwrap();
        assert!(large.add(1).is_err());
        drop(large);
        assert_eq!(one.load(Ordering::Relaxed), 0);
        assert_eq!(bodies.held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_connection_has_room_for_a_probe_and_a_short_prompt_whatever_the_others_hold() {
        let bodies = bodies(80);
        let mut held = Vec::new();
        let counts = [(); 5].map(|()| {
            let begun = fill(&bodies, &Arc::default(), None);
            let count = begun.len();
            held.push(begun);
            count
        });
        assert_eq!(counts, [40, 20, 10, 10, 1]);
        let mut prompt = bodies.begin(Some(&Arc::default()), None, 1 << 20).unwrap();
        prompt.add(SURE_BYTES - BASE_BYTES).unwrap();
        assert!(prompt.add(1).is_err());
        drop((held, prompt));
        assert_eq!(bodies.held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_tenant_fills_no_more_by_many_connections_than_by_one() {
        let bodies = bodies(80);
        let held: Vec<_> = (0..20)
            .map(|_| fill(&bodies, &Arc::default(), Some("ann")))
            .collect();
        // Beyond half of the bound, each connection has what it may hold in any case.
        assert_eq!(held[0].len(), 40);
        assert!(held[1..].iter().all(|begun| begun.len() == 1));
        let connection = Arc::default();
        let sure = fill(&bodies, &connection, Some("ann"));
        let message = bodies
            .begin(Some(&connection), Some("ann"), 1)
            .unwrap_err()
            .message;
        assert!(message.contains("of this tenant"), "{message}");
        drop((held, sure));
        assert_eq!(fill(&bodies, &connection, Some("bob")).len(), 40);
        assert_eq!(lock(&bodies.tenants).len(), 1);
        assert_eq!(bodies.held.load(Ordering::Relaxed), 0);
    }
}
