//! The choices that a worker runs: where their outputs go, whose they are, how fast they end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use spectrie_proto::worker_v1::{RequestOutput, Start};
use spectrie_types::Holdings;

use super::mailbox::Mailbox;
use crate::sync::now;
use crate::sync::pace::Pace;

/// Where outputs of a choice go.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) attempt: u32,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) index: usize,
    tenant: Arc<str>,
    /// Nothing else may run on the worker until this choice has a token.
    is_alone: bool,
}

/// Routes by wire id. What a tenant holds is counted where routes come and go, so it cannot drift
/// from what runs.
#[derive(Debug, Default)]
pub(super) struct Routes {
    by_id: BTreeMap<String, Route>,
    /// Wire ids and attempts that were cancelled and whose end the worker has not said yet: it may
    /// still compute them.
    leaving: BTreeSet<(String, u32)>,
    held: Holdings,
    /// Routes that must be alone.
    num_alone: usize,
    pace: Pace,
}

impl Routes {
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether this attempt runs.
    pub(super) fn has(&self, wire_id: &str, attempt: u32) -> bool {
        let route = self.by_id.get(wire_id);
        route.is_some_and(|route| route.attempt == attempt)
    }

    /// Whether nothing runs, nor anything cancelled whose end is not confirmed.
    pub(super) fn is_idle(&self) -> bool {
        self.by_id.is_empty() && self.leaving.is_empty()
    }

    /// Whether a choice runs that must be alone.
    pub(super) fn is_reserved(&self) -> bool {
        self.num_alone > 0
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
    pub(super) fn insert(
        &mut self,
        start: &Start,
        mailbox: Arc<Mailbox>,
        index: usize,
        is_alone: bool,
    ) {
        if self.by_id.is_empty() {
            self.pace.begin(now());
        }
        let tenant = self.held.add(tenant_of(start), 1);
        let route = Route {
            attempt: start.attempt,
            mailbox,
            index,
            tenant,
            is_alone,
        };
        self.num_alone += usize::from(is_alone);
        if let Some(replaced) = self.by_id.insert(start.request_id.clone(), route) {
            self.forget(&replaced);
        }
    }

    /// Where an output goes; none if it is of no attempt that runs. The last output of a choice takes
    /// its route out. `was_freed` is set when a choice need no longer be alone.
    pub(super) fn take(
        &mut self,
        output: &RequestOutput,
        was_freed: &mut bool,
    ) -> Option<(Arc<Mailbox>, usize)> {
        let has_ended = output.finish != 0;
        let route = self.by_id.get_mut(&output.request_id);
        let Some(route) = route.filter(|route| route.attempt == output.attempt) else {
            if has_ended {
                let attempt = (output.request_id.clone(), output.attempt);
                self.leaving.remove(&attempt);
            }
            return None;
        };
        if route.is_alone && (has_ended || !output.token_ids.is_empty()) {
            route.is_alone = false;
            self.num_alone -= 1;
            *was_freed = true;
        }
        let place = (route.mailbox.clone(), route.index);
        if has_ended {
            self.remove(&output.request_id);
        }
        Some(place)
    }

    /// Takes out the route of a choice that is about to be cancelled; `false` if it does not run.
    pub(super) fn leave(&mut self, wire_id: &str, attempt: u32) -> bool {
        if !self.has(wire_id, attempt) {
            return false;
        }
        self.remove(wire_id);
        self.leaving.insert((wire_id.to_owned(), attempt));
        true
    }

    /// Takes out the route of a choice that ended.
    fn remove(&mut self, wire_id: &str) {
        if let Some(route) = self.by_id.remove(wire_id) {
            self.forget(&route);
            self.pace.ended(now());
        }
    }

    /// Counts a route no more.
    fn forget(&mut self, route: &Route) {
        self.held.take(&route.tenant, 1);
        self.num_alone -= usize::from(route.is_alone);
    }

    pub(super) fn into_routes(self) -> impl Iterator<Item = Route> {
        self.by_id.into_values()
    }
}

/// Whose share of the workers a choice takes.
pub(super) fn tenant_of(start: &Start) -> &str {
    start.tenant.as_deref().unwrap_or(&start.namespace)
}
