//! Who goes first: into the running requests, and to the prompt rows of a step.
//!
//! Tenants go by [`Place`], whatever their requests ask for. Among the requests of one tenant the
//! level decides: its priority and one more for every `age_s` it has waited, since it came and since
//! the tenant's line of the same priority was last served. Then who is due first, then who came first.
//! So of requests of a tenant that differ in priority by n, the lower one goes first after n * `age_s`
//! at the latest, however many of the higher keep coming.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::fairness::{FairShare, Place};
use super::running::Running;
use crate::request_key::RequestKey;
use crate::sequence::Sequence;

/// Priorities beyond this count as this: any gap is made up for by waiting.
const MAX_PRIORITY: i32 = 100;

/// The place of a request among those of its tenant: less goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Claim {
    level: Reverse<i64>,
    due_us: i64,
    key: RequestKey,
}

impl Claim {
    /// The claim of a request that has waited for so long, where one level of priority is worth
    /// `age_s`.
    pub(crate) fn new(key: RequestKey, sequence: &Sequence, waited_s: f64, age_s: f64) -> Self {
        let levels = (waited_s.max(0.0) / age_s) as i64;
        Self {
            level: Reverse(i64::from(clamped(sequence.request.priority)) + levels),
            due_us: sequence.due_us(),
            key,
        }
    }
}

/// The place of a request among all others: less goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    pub(crate) tenant: Place,
    pub(crate) claim: Claim,
}

impl Rank {
    pub(crate) fn key(self) -> RequestKey {
        self.claim.key
    }

    /// This place, for another request.
    pub(crate) fn of(self, key: RequestKey) -> Self {
        let claim = Claim { key, ..self.claim };
        Self { claim, ..self }
    }
}

/// The priority of a request as far as it counts.
pub(crate) fn clamped(asked: i32) -> i32 {
    asked.clamp(-MAX_PRIORITY, MAX_PRIORITY)
}

/// Running requests whose prompt others wait for, and the best place of these.
pub(crate) type Awaited = BTreeMap<RequestKey, Rank>;

/// The prefilling requests, the first that are given prompt rows first; one whose prompt others wait
/// for goes where the first of those would.
pub(crate) fn prefill_order(
    running: &Running,
    share: &FairShare,
    awaited: &Awaited,
    age_s: f64,
    now_s: f64,
) -> Vec<RequestKey> {
    let prefilling = running.iter().filter(|(_, one)| !one.decoding);
    let mut ranks: Vec<Rank> = prefilling
        .filter_map(|(&key, one)| {
            let waited_s = now_s - one.timeline.waiting_since_s();
            let claim = Claim::new(key, one, waited_s, age_s);
            let tenant = share.place(&one.tenant)?;
            let rank = Rank { tenant, claim };
            let best = awaited.get(&key).map(|best| best.of(key));
            Some(best.map_or(rank, |best| rank.min(best)))
        })
        .collect();
    ranks.sort_unstable();
    ranks.into_iter().map(Rank::key).collect()
}
