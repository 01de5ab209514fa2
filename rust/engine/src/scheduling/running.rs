//! The requests that hold pages.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::cache::{Cache, Resident};
use crate::request_key::RequestKey;
use crate::sequence::Sequence;

/// The requests that hold pages, in the order of a step's rows. Boxed: a step takes each out and
/// puts it back.
pub(crate) type Running = BTreeMap<RequestKey, Box<Sequence>>;

/// Tokens that the running requests of each tenant will probably still take.
pub(crate) type Obligations = HashMap<Arc<str>, u64>;

/// Requests of a step: those that have their turn, and guests.
#[derive(Debug)]
pub(crate) struct Parties {
    pub(crate) regulars: Vec<RequestKey>,
    pub(crate) guests: Vec<RequestKey>,
}

/// Those of them that are wanted, as the cache sees them.
pub(crate) fn residents(
    running: &Running,
    is_wanted: impl Fn(&Sequence) -> bool,
) -> impl Iterator<Item = Resident<'_>> {
    let wanted = running.iter().filter(move |(_, one)| is_wanted(one));
    wanted.map(|(&key, one)| one.resident(key))
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

/// Pages that requests may still need for so many tokens more each.
pub(crate) fn growth<'a>(
    sequences: impl Iterator<Item = &'a Sequence>,
    ahead: usize,
    cache: &Cache,
) -> usize {
    let of_one = |sequence: &Sequence| {
        let most = sequence.tokens.len() + sequence.num_left().min(ahead);
        let num_pages = sequence.table.pages().len();
        cache.pages_for(most).saturating_sub(num_pages)
    };
    sequences.map(of_one).sum()
}

/// Those that run in room that one before them waits for.
pub(crate) fn guests(running: &Running) -> impl Iterator<Item = &Sequence> {
    running
        .values()
        .map(|one| &**one)
        .filter(|one| one.is_guest)
}

/// The guest that came last.
pub(crate) fn last_guest(running: &Running) -> Option<RequestKey> {
    let mut from_the_end = running.iter().rev();
    let last = from_the_end.find(|(_, one)| one.is_guest);
    last.map(|(&key, _)| key)
}

/// Those that run in their turn.
pub(crate) fn regulars(running: &Running) -> impl Iterator<Item = &Sequence> {
    running
        .values()
        .map(|one| &**one)
        .filter(|one| !one.is_guest)
}

/// Of `keys` those that run, in their turn and as guests.
pub(crate) fn parties(running: &Running, keys: Vec<RequestKey>) -> Parties {
    let (mut regulars, mut guests) = (Vec::new(), Vec::new());
    for key in keys {
        match running.get(&key) {
            Some(one) if one.is_guest => guests.push(key),
            Some(_) => regulars.push(key),
            None => {}
        }
    }
    Parties { regulars, guests }
}

/// Lets guests stay: nobody waits for their room.
pub(crate) fn promote_guests(running: &mut Running) {
    for one in running.values_mut() {
        one.is_guest = false;
    }
}
