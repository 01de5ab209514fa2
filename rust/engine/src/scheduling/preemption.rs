//! Who is preempted when pages run out.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::fairness::{FairShare, Place};
use super::priority::clamped;
use super::running::Running;
use crate::request_key::RequestKey;

/// Who loses its pages when some are needed: of the tenants of the lowest rank the one that holds
/// most, of its requests the lowest priority, of these the last one to come. Never the one that came
/// first of all that run: it always gets to its end, so everybody does.
pub(crate) fn victim(running: &Running, share: &FairShare) -> Option<RequestKey> {
    let elder = running.keys().min()?;
    let mut held: HashMap<&str, usize> = HashMap::new();
    for one in running.values() {
        *held.entry(&*one.tenant).or_default() += one.table.pages().len();
    }
    let others = running.iter().filter(|(key, _)| *key != elder);
    others
        .min_by_key(|(key, one)| {
            let tenant = &*one.tenant;
            let rank = share.place(tenant).map(Place::rank);
            (
                rank,
                Reverse((held.get(tenant).copied(), tenant)),
                clamped(one.request.priority),
                Reverse(**key),
            )
        })
        .map(|(&key, _)| key)
}
