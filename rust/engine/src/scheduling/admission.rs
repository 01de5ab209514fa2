//! Who runs: admits waiting requests, and preempts some when pages run out.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::fairness::{Bounds, FairShare, Place};
use super::preemption::victim;
use super::priority::{Claim, Rank};
use super::queue::Queue;
use super::running::{self, Obligations, Running, residents};
use crate::cache::Cache;
use crate::config::EngineConfig;
use crate::output::Load;
use crate::request_key::RequestKey;
use crate::sequence::Sequence;

/// Requests looked at in one step that wait for the prompt another one computes.
const MAX_PASSED_OVER: usize = 64;

/// After a request lost its pages, the next one is admitted where the others have room to grow so
/// many times as far as usual: else it would soon lose them again.
const PRESSED_LOOKAHEAD: usize = 2;

/// Running requests whose prompt others wait for, and the best place of these.
pub(crate) type Awaited = BTreeMap<RequestKey, Rank>;

/// Owns who waits, what each tenant was served, and whether memory is short.
#[derive(Debug)]
pub(crate) struct Admission {
    config: Arc<EngineConfig>,
    waiting: Queue,
    share: FairShare,
    /// Of every request that has not ended, by handle.
    keys: HashMap<u64, RequestKey>,
    num_arrivals: u64,
    /// Whether a request lost its pages and none was admitted since.
    is_pressed: bool,
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
            keys: HashMap::new(),
            num_arrivals: 0,
            is_pressed: false,
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

    /// Those that wait.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (RequestKey, &Sequence)> {
        self.waiting.iter().map(|(&key, one)| (key, one))
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
    /// grow. One whose next tokens a running request computes is passed over until they are there;
    /// one that does not fit holds up those after it, so that its pages come together.
    pub(crate) fn admit(
        &mut self,
        running: &mut Running,
        cache: &mut Cache,
        now_s: f64,
    ) -> Awaited {
        let mut awaited = Awaited::new();
        if self.waiting.is_empty() {
            return awaited;
        }
        let mut passed_over = HashSet::new();
        let mut obligations = running::obligations(running, self.config.lookahead_tokens);
        while running.len() < self.config.max_running && passed_over.len() <= MAX_PASSED_OVER {
            let Some(rank) = self.next_waiting(&passed_over, &obligations, now_s) else {
                break;
            };
            let key = rank.key();
            let Some(sequence) = self.waiting.get_mut(key) else {
                break;
            };
            let prefix = sequence.find_prefix(cache);
            let prefilling = running.iter().filter(|(_, one)| !one.decoding);
            let prefilling = prefilling.map(|(&key, one)| one.resident(key));
            let reusable = sequence.reusable();
            if let Some(other) = cache.computing(&sequence.table, reusable, &prefix, prefilling) {
                passed_over.insert(key);
                let best = awaited.entry(other).or_insert(rank);
                *best = rank.min(*best);
                continue;
            }
            let needed = cache.price(&prefix, sequence.tokens.len());
            if !self.has_room(key, needed, running, cache) {
                break;
            }
            let Some(mut sequence) = self.waiting.admit(key, now_s) else {
                break;
            };
            self.is_pressed = false;
            sequence.seat(key, cache, prefix, residents(running));
            if let Some(num_cached) = sequence.note_cached() {
                self.prefix_query_tokens += sequence.num_prompt() as u64;
                self.prefix_hit_tokens += num_cached as u64;
            }
            sequence.timeline.admit(now_s);
            let expected = running::expected_tokens(&sequence, self.config.lookahead_tokens);
            *obligations.entry(sequence.tenant.clone()).or_default() += expected;
            running.insert(key, sequence);
        }
        awaited
    }

    /// The place of the waiting request that goes first.
    fn next_waiting(
        &self,
        passed_over: &HashSet<RequestKey>,
        obligations: &Obligations,
        now_s: f64,
    ) -> Option<Rank> {
        let mut first: Option<(Place, Rank)> = None;
        for (tenant, name) in self.share.in_order() {
            // What running requests will take only moves a tenant back.
            if first.is_some_and(|(first, _)| first < tenant) {
                break;
            }
            let owed = obligations.get(name).copied().unwrap_or(0);
            let place = tenant.after(owed);
            if first.is_some_and(|(first, _)| first < place) {
                continue;
            }
            let age_s = self.config.age_s;
            if let Some(claim) = self.waiting.first_of(name, passed_over, now_s, age_s) {
                first = Some((place, Rank { tenant, claim }));
            }
        }
        first.map(|(_, rank)| rank)
    }

    /// Whether a waiting request that takes `needed` pages fits, with room for it and all others to
    /// grow. One alone always fits: else it would have been refused.
    fn has_room(&self, key: RequestKey, needed: usize, running: &Running, cache: &Cache) -> bool {
        if running.is_empty() {
            return needed <= cache.num_available();
        }
        let Some(sequence) = self.waiting.get(key) else {
            return false;
        };
        let ahead = if self.is_pressed {
            PRESSED_LOOKAHEAD * self.config.lookahead_tokens
        } else {
            self.config.lookahead_tokens
        };
        let growth = |one: &Sequence, num_pages: usize| {
            let most = one.tokens.len() + one.num_left().min(ahead);
            cache.pages_for(most).saturating_sub(num_pages)
        };
        let others = running.values();
        let others: usize = others.map(|one| growth(one, one.table.pages().len())).sum();
        let own = growth(sequence, cache.pages_for(sequence.tokens.len()));
        needed + own + others <= cache.num_available()
    }

    /// Gives every decoding request a slot for its last token, taking pages from others when they
    /// run out; returns who decodes, and whether any pages were taken.
    pub(crate) fn secure_decoding(
        &mut self,
        running: &mut Running,
        cache: &mut Cache,
        now_s: f64,
    ) -> (Vec<RequestKey>, bool) {
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
                self.preempt(victim.unwrap_or(key), running, cache, now_s);
            }
        }
        keys.retain(|key| running.contains_key(key));
        (keys, preempted)
    }

    fn preempt(&mut self, key: RequestKey, running: &mut Running, cache: &mut Cache, now_s: f64) {
        if let Some(mut sequence) = running.remove(&key) {
            sequence.note_preemption(now_s);
            self.preemptions += 1;
            self.is_pressed = true;
            self.requeue(key, sequence, cache);
        }
    }

    /// The prefilling requests, the first that are given prompt rows first; one whose prompt others
    /// wait for goes where the first of those would.
    pub(crate) fn prefill_order(
        &self,
        running: &Running,
        awaited: &Awaited,
        now_s: f64,
    ) -> impl Iterator<Item = RequestKey> + use<> {
        let prefilling = running.iter().filter(|(_, one)| !one.decoding);
        let mut ranks: Vec<Rank> = prefilling
            .filter_map(|(&key, one)| {
                let waited_s = now_s - one.timeline.waiting_since_s();
                let claim = Claim::new(key, one, waited_s, self.config.age_s);
                let tenant = self.share.place(&one.tenant)?;
                let rank = Rank { tenant, claim };
                let best = awaited.get(&key).map(|best| best.of(key));
                Some(best.map_or(rank, |best| rank.min(best)))
            })
            .collect();
        ranks.sort_unstable();
        ranks.into_iter().map(Rank::key)
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
