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

use crate::request_key::RequestKey;
use crate::sequence::Sequence;

/// Priorities beyond this count as this: any gap is made up for by waiting.
const MAX_PRIORITY: i32 = 100;

/// The place of a request among others: less goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    level: Reverse<i64>,
    served: u64,
    due_us: i64,
    key: RequestKey,
}

impl Rank {
    /// The place of a request that has waited for so long, where one level of priority is worth
    /// `age_s`; its tenant has received `served` tokens.
    pub(crate) fn new(
        key: RequestKey,
        sequence: &Sequence,
        waited_s: f64,
        age_s: f64,
        served: u64,
    ) -> Self {
        let levels = (waited_s.max(0.0) / age_s) as i64;
        Self {
            level: Reverse(i64::from(clamped(sequence.request.priority)) + levels),
            served,
            due_us: sequence.due_us(),
            key,
        }
    }

    pub(crate) fn key(self) -> RequestKey {
        self.key
    }

    /// This place, for another request.
    pub(crate) fn of(self, key: RequestKey) -> Self {
        Self { key, ..self }
    }
}

/// The priority of a request as far as it counts.
pub(crate) fn clamped(asked: i32) -> i32 {
    asked.clamp(-MAX_PRIORITY, MAX_PRIORITY)
}
