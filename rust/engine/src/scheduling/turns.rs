//! Whose turn it is, and who goes back to wait for others.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use super::fairness::{FairShare, Place};
use super::priority::{Rank, clamped};
use super::queue::{Queue, Skipped};
use super::running::{Obligations, Running};
use crate::cache::Cache;
use crate::config::EngineConfig;
use crate::request_key::RequestKey;
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

/// The place of the waiting request that goes first.
pub(super) fn first_waiting(
    waiting: &Queue,
    share: &FairShare,
    skipped: &Skipped,
    obligations: &Obligations,
    (age_s, now_s): (f64, f64),
) -> Option<Rank> {
    let mut first: Option<(Place, Rank)> = None;
    for (tenant, name) in share.in_order() {
        // What running requests will take only moves a tenant back.
        if first.is_some_and(|(first, _)| first < tenant) {
            break;
        }
        let owed = obligations.get(name).copied().unwrap_or(0);
        let place = tenant.after(owed);
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
    victim_among(running, share, &Holdings::of(running), |_| true)
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
    let holdings = Holdings::of(running);
    let num_tenants = holdings.by_tenant.len() + 1;
    if cache.pages_for(waiting.tokens.len()) * num_tenants > config.num_pages {
        return None;
    }
    victim_among(running, share, &holdings, |tenant| {
        let num_requests = holdings.num_requests(tenant);
        let holds_more = match lack {
            Lack::Place => num_requests * num_tenants > config.max_running,
            Lack::Pages => holdings.num_pages(tenant) * num_tenants > config.num_pages,
        };
        // One that goes back alone would have a turn as soon, and nobody would get on.
        num_requests > 1 && holds_more
    })
}

/// What the tenants of running requests hold.
#[derive(Debug, Default)]
struct Holdings<'a> {
    /// Their requests and pages, those that several of a tenant's share once.
    by_tenant: HashMap<&'a str, (usize, HashSet<u32>)>,
}

impl<'a> Holdings<'a> {
    fn of(running: &'a Running) -> Self {
        let mut holdings = Self::default();
        for one in running.values() {
            let (num_requests, pages) = holdings.by_tenant.entry(&one.tenant).or_default();
            *num_requests += 1;
            pages.extend(one.table.pages());
        }
        holdings
    }

    fn num_requests(&self, tenant: &str) -> usize {
        self.by_tenant.get(tenant).map_or(0, |held| held.0)
    }

    fn num_pages(&self, tenant: &str) -> usize {
        self.by_tenant.get(tenant).map_or(0, |held| held.1.len())
    }
}

fn victim_among(
    running: &Running,
    share: &FairShare,
    holdings: &Holdings<'_>,
    may_lose: impl Fn(&str) -> bool,
) -> Option<RequestKey> {
    let elder = running.keys().min()?;
    let others = running.iter().filter(|(key, _)| *key != elder);
    others
        .filter(|(_, one)| may_lose(&one.tenant))
        .min_by_key(|(key, one)| {
            let tenant = &*one.tenant;
            (
                share.place(tenant).map(Place::rank),
                Reverse((holdings.num_pages(tenant), tenant)),
                clamped(one.request.priority),
                Reverse(**key),
            )
        })
        .map(|(&key, _)| key)
}
