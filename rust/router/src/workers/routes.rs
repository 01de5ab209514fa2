//! The choices that a worker runs: where their outputs go, whose they are, how fast they end.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use spectrie_proto::worker_v1::Start;
use spectrie_types::Holdings;

use super::mailbox::Mailbox;
use crate::pace::Pace;

/// Where outputs of a choice go.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) attempt: u32,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) index: usize,
    tenant: Arc<str>,
}

/// Routes by wire id. What a tenant holds is counted where routes come and go, so it cannot drift
/// from what runs.
#[derive(Debug, Default)]
pub(super) struct Routes {
    by_id: HashMap<String, Route>,
    held: Holdings,
    pace: Pace,
}

impl Routes {
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn get(&self, wire_id: &str) -> Option<&Route> {
        self.by_id.get(wire_id)
    }

    /// Choices of each tenant.
    pub(super) fn held(&self) -> &Holdings {
        &self.held
    }

    /// Choices that end in a second, as far as it can be known.
    pub(super) fn pace(&self, now: Instant) -> f64 {
        self.pace.rate(now)
    }

    /// Adds the route of a choice that is about to start.
    pub(super) fn insert(&mut self, start: &Start, mailbox: Arc<Mailbox>, index: usize) {
        if self.by_id.is_empty() {
            self.pace.begin(Instant::now());
        }
        let tenant = self.held.add(tenant_of(start), 1);
        let route = Route {
            attempt: start.attempt,
            mailbox,
            index,
            tenant,
        };
        if let Some(replaced) = self.by_id.insert(start.request_id.clone(), route) {
            self.held.take(&replaced.tenant, 1);
        }
    }

    /// Takes out the route of a choice that ended.
    pub(super) fn remove(&mut self, wire_id: &str) -> Option<Route> {
        let route = self.by_id.remove(wire_id)?;
        self.held.take(&route.tenant, 1);
        self.pace.ended(Instant::now());
        Some(route)
    }

    pub(super) fn into_routes(self) -> impl Iterator<Item = Route> {
        self.by_id.into_values()
    }
}

/// Whose share of the workers a choice takes.
fn tenant_of(start: &Start) -> &str {
    start.tenant.as_deref().unwrap_or(&start.namespace)
}
