//! Who goes first: into the running requests, to the prompt rows of a step, and out when pages are
//! short.
//!
//! The level of a request is its priority and one more for every `age_s` it has waited: since it
//! came, and since its tenant's line of the same priority was last served. Within a level the tenant
//! goes first that got least, then who is due first, then who came first. So
//! - of requests that differ in priority by n, the lower one is served after n * `age_s` at the
//!   latest, however many of the higher keep coming, and its line once in so long at least;
//! - a tenant's backlog earns no level while the tenant is served, so it cannot outweigh those of
//!   others by its age.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use crate::request_key::RequestKey;
use crate::scheduling::scheduler::Scheduler;
use crate::sequence::sequence::Sequence;

/// Priorities beyond this count as this: any gap is made up for by waiting.
const MAX_PRIORITY: i32 = 100;

/// Less goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    level: Reverse<i64>,
    served: u64,
    due_us: i64,
    key: RequestKey,
}

impl Rank {
    pub(crate) fn key(self) -> RequestKey {
        self.key
    }

    /// This place, for another request.
    pub(crate) fn of(self, key: RequestKey) -> Self {
        Self { key, ..self }
    }
}

/// What each tenant was served and what its running requests are yet to be served.
pub(crate) type Obligations = HashMap<Arc<str>, u64>;

/// The priority of a request as far as it counts.
pub(crate) fn priority(asked: i32) -> i32 {
    asked.clamp(-MAX_PRIORITY, MAX_PRIORITY)
}

impl Scheduler {
    /// The place of a request that waits since `waiting_since_s`, of a tenant that was `served` so
    /// much.
    pub(crate) fn rank(
        &self,
        key: RequestKey,
        sequence: &Sequence,
        waiting_since_s: f64,
        served: u64,
        now_s: f64,
    ) -> Rank {
        let levels = ((now_s - waiting_since_s).max(0.0) / self.config.age_s) as i64;
        Rank {
            level: Reverse(i64::from(priority(sequence.request.priority)) + levels),
            served,
            due_us: sequence.due_us(),
            key,
        }
    }

    /// What was computed for each tenant that has running requests, and what those will probably
    /// still take.
    pub(crate) fn obligations(&self) -> Obligations {
        let mut obligations = Obligations::new();
        for sequence in self.running.values() {
            let tenant = &sequence.tenant;
            let owed = obligations
                .entry(Arc::clone(tenant))
                .or_insert_with(|| self.share.served(tenant));
            *owed += self.expected_tokens(sequence);
        }
        obligations
    }

    /// Tokens that are yet to be computed for a request, as far as one looks ahead.
    pub(crate) fn expected_tokens(&self, sequence: &Sequence) -> u64 {
        let growth = sequence.num_left().min(self.config.lookahead_tokens);
        (sequence.num_missing() + growth) as u64
    }

    /// Who loses its pages when some are needed: the lowest priority, of these the tenant that got
    /// most, of its requests the last one to come. Never the one that came first of all that run:
    /// it always gets to its end, so everybody does.
    pub(crate) fn victim(&self) -> Option<RequestKey> {
        let elder = self.running.keys().min_by_key(|key| key.arrival())?;
        let obligations = self.obligations();
        let others = self.running.iter().filter(|(key, _)| *key != elder);
        others
            .min_by_key(|(key, one)| {
                let owed = obligations.get(&one.tenant).copied();
                (
                    priority(one.request.priority),
                    Reverse((owed, key.arrival())),
                )
            })
            .map(|(&key, _)| key)
    }
}
