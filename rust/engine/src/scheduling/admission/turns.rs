//! Whose turn it is, and who goes back to wait for others.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use super::queue::{Queue, Skipped};
use crate::cache::Cache;
use crate::config::EngineConfig;
use crate::request_key::RequestKey;
use crate::scheduling::fairness::{FairShare, Place};
use crate::scheduling::priority::{Rank, clamped};
use crate::scheduling::running::{Obligations, Running, regulars};
use crate::sequence::Sequence;

/// Seconds that a tenant of which nothing runs waits for requests of those who hold more than their part.
const LONGEST_WAIT_S: f64 = 1.0;

/// What a waiting request lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lack {
    /// One of the places of requests that run.
    Place,
    /// Pages for its tokens, and for all to grow.
    Pages,
}

/// The place of the waiting request that goes first; where no place is left, among those of tenants of
/// which nothing runs: others have none to gain. `obligations` has all of which something runs.
pub(super) fn first_waiting(
    waiting: &Queue,
    share: &FairShare,
    (skipped, obligations, has_place): (&Skipped, &Obligations, bool),
    (age_s, now_s): (f64, f64),
) -> Option<Rank> {
    let mut first: Option<(Place, Rank)> = None;
    for (tenant, name) in share.in_order() {
        // What running requests will take only moves a tenant back.
        if first.is_some_and(|(first, _)| first < tenant) {
            break;
        }
        let owed = obligations.get(name).copied();
        if owed.is_some() && !has_place {
            continue;
        }
        let place = tenant.after(owed.unwrap_or(0));
        if first.is_some_and(|(first, _)| first < place) {
            continue;
        }
        if let Some(claim) = waiting.first_of(name, skipped, now_s, age_s) {
            first = Some((place, Rank { tenant, claim }));
        }
    }
    first.map(|(_, rank)| rank)
}

/// Who loses its pages when some are needed: of the tenants of the lowest rank the one that holds
/// most, of its requests the lowest priority, of these the last one to come. Never the one that came
/// first of all that run: it always gets to its end, so everybody does.
pub(super) fn victim(running: &Running, share: &FairShare) -> Option<RequestKey> {
    let held = pages(running.values().map(|one| &**one));
    victim_among(running, share, &held, |_| true)
}

/// Who goes back to wait so that `waiting`, which lacks a place or pages, has its turn: one of a tenant
/// of which several run that hold more than an equal part. Only where nothing of its own tenant runs, it
/// has waited for as long as anybody needs to, and it takes no more than its part itself.
pub(super) fn overtaken(
    waiting: &Sequence,
    lack: Lack,
    running: &Running,
    share: &FairShare,
    (config, cache): (&EngineConfig, &Cache),
    now_s: f64,
) -> Option<RequestKey> {
    let waited_s = now_s - waiting.timeline.waiting_since_s();
    let is_served = running.values().any(|one| one.tenant == waiting.tenant);
    if is_served || waited_s < LONGEST_WAIT_S {
        return None;
    }
    // What guests hold counts as free already.
    let mut num_running: HashMap<&str, usize> = HashMap::new();
    for one in regulars(running) {
        *num_running.entry(&*one.tenant).or_default() += 1;
    }
    let num_tenants = num_running.len() + 1;
    if cache.pages_for(waiting.tokens.len()) * num_tenants > config.num_pages {
        return None;
    }
    // One that goes back alone would have a turn as soon, and nobody would get on.
    num_running.retain(|_, num| *num > 1);
    let held = pages(regulars(running).filter(|one| num_running.contains_key(&*one.tenant)));
    victim_among(running, share, &held, |one| {
        let num_running = num_running.get(&*one.tenant).copied().unwrap_or(0);
        let holds_more = match lack {
            Lack::Place => num_running * num_tenants > config.max_running,
            Lack::Pages => num_pages(&held, one) * num_tenants > config.num_pages,
        };
        !one.is_guest && holds_more
    })
}

/// The pages of each tenant's requests; those that several of them share are held once.
type Held<'a> = HashMap<&'a str, HashSet<u32>>;

fn pages<'a>(sequences: impl Iterator<Item = &'a Sequence>) -> Held<'a> {
    let mut held = Held::new();
    for one in sequences {
        held.entry(&*one.tenant)
            .or_default()
            .extend(one.table.pages());
    }
    held
}

fn num_pages(held: &Held<'_>, sequence: &Sequence) -> usize {
    held.get(&*sequence.tenant).map_or(0, HashSet::len)
}

fn victim_among(
    running: &Running,
    share: &FairShare,
    held: &Held<'_>,
    may_lose: impl Fn(&Sequence) -> bool,
) -> Option<RequestKey> {
    let elder = running.keys().min()?;
    let others = running.iter().filter(|(key, _)| *key != elder);
    others
        .filter(|(_, one)| may_lose(one))
        .min_by_key(|(key, one)| {
            (
                share.place(&one.tenant).map(Place::rank),
                Reverse((num_pages(held, one), &*one.tenant)),
                clamped(one.request.priority),
                Reverse(**key),
            )
        })
        .map(|(&key, _)| key)
}
