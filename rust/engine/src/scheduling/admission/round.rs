//! Tenants behind those that a step looks at in order: a few in each step, in turn.

use std::sync::Arc;

use super::queue::{Queue, Skipped};
use crate::scheduling::fairness::{FairShare, Place};
use crate::scheduling::priority::Rank;

/// Requests looked at in order in one step that wait for the prompt another one computes, or do not
/// fit.
pub(super) const MAX_PASSED_OVER: usize = 64;

/// Tenants looked at in one step behind those, at most.
pub(super) const MAX_IN_ROUND: usize = 16;

/// Whose turn it is to be looked at. It goes on from step to step, over everybody who waits: who fits
/// beside all others is found in as many steps as there are tenants for each step's part.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// Where the last one looked at was in the order of tenants.
    last: Option<Place>,
}

impl Round {
    /// The place of the first request of the next tenant that is not skipped. The tenant is skipped from
    /// now on, whatever comes of it: each has one look.
    pub(super) fn next(
        &mut self,
        waiting: &Queue,
        share: &FairShare,
        skipped: &mut Skipped,
        (age_s, now_s): (f64, f64),
    ) -> Option<Rank> {
        let (rank, name) = share.in_order_after(self.last).find_map(|(tenant, name)| {
            let claim = waiting.first_of(name, skipped, now_s, age_s)?;
            Some((Rank { tenant, claim }, name))
        })?;
        self.last = Some(rank.tenant);
        skipped.tenants.insert(Arc::clone(name));
        Some(rank)
    }
}
