//! Who is preempted when pages run out.

use std::cmp::Reverse;

use super::priority::clamped;
use super::running::{Obligations, Running};
use crate::request_key::RequestKey;

/// Who loses its pages when some are needed: the lowest priority, of these the tenant that got
/// most, of its requests the last one to come. Never the one that came first of all that run:
/// it always gets to its end, so everybody does.
pub(crate) fn victim(running: &Running, obligations: &Obligations) -> Option<RequestKey> {
    let elder = running.keys().min_by_key(|key| key.arrival())?;
    let others = running.iter().filter(|(key, _)| *key != elder);
    others
        .min_by_key(|(key, one)| {
            let owed = obligations.get(&one.tenant).copied();
            (
                clamped(one.request.priority),
                Reverse((owed, key.arrival())),
            )
        })
        .map(|(&key, _)| key)
}
