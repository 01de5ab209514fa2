//! Who runs: admits waiting requests, and preempts some when pages run out.

use std::collections::HashMap;
use std::sync::Arc;

use super::following::Following;
use super::queue::{Queue, Skipped};
use super::room::{GUESTS_LEAVE, Room};
use super::round::{MAX_IN_ROUND, MAX_PASSED_OVER, Round};
use super::turns::{self, Lack, first_waiting, victim};
use crate::cache::{Cache, CachedPrefix};
use crate::config::EngineConfig;
use crate::output::Load;
use crate::request_key::RequestKey;
use crate::scheduling::fairness::{Bounds, FairShare};
use crate::scheduling::priority::{Awaited, prefill_order};
use crate::scheduling::running::{self, Parties, Running, growth, residents};
use crate::sequence::Sequence;

/// Owns who waits, what each tenant was served, and whether memory is short.
#[derive(Debug)]
pub(crate) struct Admission {
    config: Arc<EngineConfig>,
    waiting: Queue,
    share: FairShare,
    round: Round,
    /// Of every request that has not ended, by handle.
    keys: HashMap<u64, RequestKey>,
    num_arrivals: u64,
    /// Whether a request lost its pages and none was admitted since.
    is_pressed: bool,
    /// Whether requests are admitted as guests; tests compare.
    pub(in crate::scheduling) backfills: bool,
    /// Whether one was admitted in this step: what it copies may be filled by what another is yet to copy.
    has_seated: bool,
    preemptions: u64,
    prefix_query_tokens: u64,
    prefix_hit_tokens: u64,
}

impl Admission {
    pub(crate) fn new(config: Arc<EngineConfig>) -> Self {
        Self {
            share: FairShare::new(Bounds {
                lead: config.max_context as u64,
                lag: config.chunk_tokens as u64,
            }),
            config,
            waiting: Queue::default(),
            round: Round::default(),
            keys: HashMap::new(),
            num_arrivals: 0,
            is_pressed: false,
            backfills: true,
            has_seated: false,
            preemptions: 0,
            prefix_query_tokens: 0,
            prefix_hit_tokens: 0,
        }
    }

    /// By which it admits.
    pub(crate) fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// Takes a new request in; it waits. Gives its key.
    pub(crate) fn enter(&mut self, sequence: Box<Sequence>) -> RequestKey {
        let key = RequestKey::new(self.num_arrivals);
        self.num_arrivals += 1;
        self.share.enter(&sequence.tenant);
        self.keys.insert(sequence.request.handle, key);
        self.waiting.insert(key, sequence);
        key
    }

    /// Forgets a request that ends; it neither waits nor runs any more.
    pub(crate) fn leave(&mut self, sequence: &Sequence) {
        if !sequence.decoding {
            self.share.rest(&sequence.tenant);
        }
        self.share.leave(&sequence.tenant);
        self.keys.remove(&sequence.request.handle);
    }

    /// The key of a request that has not ended.
    pub(crate) fn key_of(&self, handle: u64) -> Option<RequestKey> {
        self.keys.get(&handle).copied()
    }

    /// Takes a request out of those that wait.
    pub(crate) fn withdraw(&mut self, key: RequestKey) -> Option<Box<Sequence>> {
        self.waiting.remove(key)
    }

    /// Takes the pages of a request that ran; it waits and recomputes what no other request keeps.
    pub(crate) fn requeue(
        &mut self,
        key: RequestKey,
        mut sequence: Box<Sequence>,
        cache: &mut Cache,
    ) {
        if sequence.decoding {
            self.share.compete(&sequence.tenant);
        }
        sequence.vacate(key, cache);
        self.waiting.insert(key, sequence);
    }

    /// Notes that a request of `tenant` has all its prompt rows.
    pub(crate) fn note_prefilled(&mut self, tenant: &str) {
        self.share.rest(tenant);
    }

    /// Those that wait and whose deadline is over, to the microsecond.
    pub(crate) fn due(&self, now_s: f64) -> impl Iterator<Item = (RequestKey, &Sequence)> {
        self.waiting.due(now_s)
    }

    /// Hides the pages of a namespace's requests from others.
    pub(crate) fn forget(&mut self, namespace: &str) {
        self.waiting.forget(namespace);
    }

    /// Notes how many tokens were computed for a tenant.
    pub(crate) fn charge(&mut self, tenant: &str, tokens: usize) {
        self.share.charge(tenant, tokens);
    }

    /// Admits waiting requests, in order, while their tokens fit and everybody who runs has room to
    /// grow. One whose next tokens a running request computes is passed over until they are there.
    ///
    /// One that does not fit waits until its pages come together. Meanwhile the first of other tenants
    /// are admitted behind it as guests, where they fit beside all others. It counts their room as its
    /// own, and they lose it as soon as it fits: so it is admitted in the step in which it would be
    /// without them. Far behind it, a few tenants are looked at in each step, in turn.
    pub(crate) fn admit(
        &mut self,
        running: &mut Running,
        cache: &mut Cache,
        following: &mut Following<'_>,
        now_s: f64,
    ) -> Awaited {
        let mut awaited = Awaited::new();
        if self.waiting.is_empty() {
            running::promote_guests(running);
            return awaited;
        }
        let mut skipped = Skipped::default();
        self.has_seated = false;
        let mut obligations = running::obligations(running, self.config.lookahead_tokens);
        while skipped.len() <= MAX_PASSED_OVER + MAX_IN_ROUND {
            let in_round = skipped.len() > MAX_PASSED_OVER;
            let as_guest = in_round || !skipped.tenants.is_empty();
            let rivals = running.values().filter(|one| as_guest || !one.is_guest);
            let has_place = rivals.count() < self.config.max_running;
            let guest_room = as_guest.then(|| self.room().of_guest(running, cache));
            let has_room = guest_room.is_none_or(|room| room > 0 && has_place && self.backfills);
            if !has_room {
                break;
            }
            let times = (self.config.age_s, now_s);
            let (waiting, share) = (&self.waiting, &self.share);
            let first = if in_round {
                self.round.next(waiting, share, &mut skipped, times)
            } else {
                let who = (&skipped, &obligations, has_place);
                first_waiting(waiting, share, who, times)
            };
            let Some(rank) = first else { break };
            let key = rank.key();
            if !has_place && !self.give_turn(key, Lack::Place, running, cache, now_s) {
                break;
            }
            let waiting = self.waiting.get_mut(key);
            let Some(prefix) = waiting.map(|one| one.find_prefix(cache)) else {
                break;
            };
            let Some(sequence) = self.waiting.get(key) else {
                break;
            };
            let tenant = Arc::clone(&sequence.tenant);
            // What guests compute may be gone before it is there.
            let counts = |one: &Sequence| !one.decoding && (as_guest || !one.is_guest);
            let prefilling = running.iter().filter(|(_, one)| counts(one));
            let prefilling = prefilling.map(|(&key, one)| one.resident(key));
            let reusable = sequence.reusable();
            if let Some(other) = cache.computing(&sequence.table, reusable, &prefix, prefilling) {
                if !in_round {
                    skipped.requests.insert(key);
                }
                if !as_guest {
                    let best = awaited.entry(other).or_insert(rank);
                    *best = rank.min(*best);
                }
                continue;
            }
            let prefix = if let Some(guest_room) = guest_room {
                let needed = cache.price(&prefix, sequence.tokens.len());
                let growth = self.room().growth_beside(sequence, running, cache);
                (needed + growth <= guest_room).then_some(prefix)
            } else {
                let mut room = self.make_room(key, prefix, running, cache, now_s);
                while room.is_none() && self.give_turn(key, Lack::Pages, running, cache, now_s) {
                    let found = self.waiting.get_mut(key).map(|one| one.find_prefix(cache));
                    room = found.and_then(|one| self.make_room(key, one, running, cache, now_s));
                }
                room
            };
            let Some(mut prefix) = prefix else {
                skipped.tenants.insert(tenant);
                continue;
            };
            let Some(mut sequence) = self.waiting.admit(key, now_s) else {
                break;
            };
            sequence.is_guest = as_guest;
            self.is_pressed &= as_guest;
            if !as_guest {
                prefix.followed_from = following.take_in(&sequence);
            }
            // A guest that goes later in this step takes what was to be moved in its pages along.
            let others = residents(running, |one| as_guest || !one.is_guest);
            sequence.seat(key, cache, prefix, others);
            self.has_seated = true;
            if let Some(num_cached) = sequence.note_cached() {
                self.prefix_query_tokens += sequence.num_prompt() as u64;
                self.prefix_hit_tokens += num_cached as u64;
            }
            sequence.timeline.admit(now_s);
            let expected = running::expected_tokens(&sequence, self.config.lookahead_tokens);
            *obligations.entry(tenant).or_default() += expected;
            running.insert(key, sequence);
        }
        if skipped.len() == 0 {
            running::promote_guests(running);
        }
        awaited
    }

    /// Sends one request back of a tenant that holds more than its part, where the waiting one has waited
    /// for its turn and none was seated yet; whether it did.
    fn give_turn(
        &mut self,
        key: RequestKey,
        lack: Lack,
        running: &mut Running,
        cache: &mut Cache,
        now_s: f64,
    ) -> bool {
        let limits = (&*self.config, &*cache);
        let waiting = self.waiting.get(key).filter(|_| !self.has_seated);
        let overtaken = waiting.and_then(|waiting| {
            turns::overtaken(waiting, lack, running, &self.share, limits, now_s)
        });
        if let Some(overtaken) = overtaken {
            self.let_go(overtaken, running, cache, now_s);
        }
        overtaken.is_some()
    }

    /// Lets guests go until a waiting request fits, with room for it and all but them to grow; gives
    /// what it finds in the cache then. `None`, and nobody goes, where it would not fit even so. One
    /// alone always fits: else it would have been refused.
    fn make_room(
        &mut self,
        key: RequestKey,
        prefix: CachedPrefix,
        running: &mut Running,
        cache: &mut Cache,
        now_s: f64,
    ) -> Option<CachedPrefix> {
        let sequence = self.waiting.get(key)?;
        let num_tokens = sequence.tokens.len();
        let room = self.room();
        let growth =
            room.growth_of_regulars(running, cache) + room.growth_beside(sequence, running, cache);
        let lent = cache.held_alone(running::guests(running).map(|one| &one.table));
        let num_new = cache.pages_for(num_tokens) - cache.num_held_of(&prefix, &lent);
        if num_new + growth > cache.num_available() + lent.len() {
            return None;
        }
        let mut prefix = prefix;
        while let Some(guest) = running::last_guest(running) {
            let fits = cache.price(&prefix, num_tokens) + growth <= cache.num_available();
            if fits && running.len() < self.config.max_running {
                break;
            }
            self.let_go(guest, running, cache, now_s);
            prefix = self.waiting.get_mut(key)?.find_prefix(cache);
        }
        Some(prefix)
    }

    fn room(&self) -> Room<'_> {
        Room {
            config: &self.config,
            is_pressed: self.is_pressed,
        }
    }

    /// Sends guests back until everybody else has room to grow, and for drafts.
    fn free_from_guests(&mut self, running: &mut Running, cache: &mut Cache, now_s: f64) {
        while let Some(last) = running::last_guest(running) {
            let guests = running::guests(running);
            let needed = growth(guests, 0, cache)
                + self.room().growth_of_regulars(running, cache)
                + self.config.num_pages / GUESTS_LEAVE;
            if needed <= cache.num_available() {
                return;
            }
            self.let_go(last, running, cache, now_s);
        }
    }

    /// Takes the pages of a running request, and sends it back to wait.
    fn let_go(&mut self, key: RequestKey, running: &mut Running, cache: &mut Cache, now_s: f64) {
        if let Some(mut sequence) = running.remove(&key) {
            sequence.note_preemption(now_s);
            self.preemptions += 1;
            self.requeue(key, sequence, cache);
        }
    }

    /// Gives every decoding request a slot for its last token, taking pages from others when they
    /// run out; returns who decodes, and whether any pages were taken.
    pub(crate) fn secure_decoding(
        &mut self,
        running: &mut Running,
        cache: &mut Cache,
        now_s: f64,
    ) -> (Vec<RequestKey>, bool) {
        self.free_from_guests(running, cache, now_s);
        let decoding = running.iter().filter(|(_, one)| one.decoding);
        let mut keys: Vec<RequestKey> = decoding.map(|(&key, _)| key).collect();
        let mut preempted = false;
        for &key in &keys {
            while let Some(sequence) = running.get_mut(&key) {
                if cache.grow_for_token(&mut sequence.table) {
                    break;
                }
                preempted = true;
                let victim = victim(running, &self.share);
                self.is_pressed = true;
                self.let_go(victim.unwrap_or(key), running, cache, now_s);
            }
        }
        keys.retain(|key| running.contains_key(key));
        (keys, preempted)
    }

    /// See [`prefill_order`].
    pub(crate) fn prefill_order(
        &self,
        running: &Running,
        awaited: &Awaited,
        now_s: f64,
    ) -> Parties {
        let order = prefill_order(running, &self.share, awaited, self.config.age_s, now_s);
        running::parties(running, order)
    }

    /// Writes its figures into `load`.
    pub(crate) fn report(&self, load: &mut Load) {
        load.waiting = self.waiting.len();
        load.waiting_bytes = self.waiting.bytes();
        load.preemptions = self.preemptions;
        load.prefix_query_tokens = self.prefix_query_tokens;
        load.prefix_hit_tokens = self.prefix_hit_tokens;
    }
}

#[cfg(test)]
impl Admission {
    /// Those that wait.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (RequestKey, &Sequence)> {
        self.waiting.iter()
    }
}
