//! The requests that hold pages.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::cache::Resident;
use crate::request_key::RequestKey;
use crate::sequence::Sequence;

/// The requests that hold pages, in the order of a step's rows. Boxed: a step takes each out and
/// puts it back.
pub(crate) type Running = BTreeMap<RequestKey, Box<Sequence>>;

/// Tokens that the running requests of each tenant will probably still take.
pub(crate) type Obligations = HashMap<Arc<str>, u64>;

/// As the cache sees them.
pub(crate) fn residents(running: &Running) -> impl Iterator<Item = Resident<'_>> {
    running.iter().map(|(&key, one)| one.resident(key))
}

/// Cached tokens that one row of each of these requests reads.
pub(crate) fn kv_tokens_of(running: &Running, keys: &[RequestKey]) -> usize {
    let sequences = keys.iter().filter_map(|key| running.get(key));
    sequences.map(|sequence| sequence.kv_len()).sum()
}

/// Tokens that are yet to be computed for a request, as far as one looks ahead.
pub(crate) fn expected_tokens(sequence: &Sequence, lookahead_tokens: usize) -> u64 {
    let growth = sequence.num_left().min(lookahead_tokens);
    (sequence.num_missing() + growth) as u64
}

/// What the running requests of each tenant will probably still take.
pub(crate) fn obligations(running: &Running, lookahead_tokens: usize) -> Obligations {
    let mut obligations = Obligations::new();
    for sequence in running.values() {
        let tenant = Arc::clone(&sequence.tenant);
        *obligations.entry(tenant).or_default() += expected_tokens(sequence, lookahead_tokens);
    }
    obligations
}
