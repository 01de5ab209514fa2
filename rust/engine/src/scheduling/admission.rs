//! Who runs: lets waiting requests in, takes pages back when they run out, and shares out the prompt
//! rows of a step.

use std::collections::{BTreeMap, HashSet};

use crate::cache::reuse::CachedPrefix;
use crate::request_key::RequestKey;
use crate::scheduling::priority::{Obligations, Rank};
use crate::scheduling::scheduler::Scheduler;
use crate::sequence::sequence::Sequence;
use crate::speculation::forward_size::ForwardSize;

/// Requests looked at in one step that wait for the prompt another one computes.
const MAX_PASSED_OVER: usize = 64;

/// After a request lost its pages, the next one is let in where the others have room to grow so
/// many times as far as usual: else it would soon lose them again.
const PRESSED_LOOKAHEAD: usize = 2;

/// Running requests whose prompt others wait for, and the best place of these.
pub(crate) type Awaited = BTreeMap<RequestKey, Rank>;

impl Scheduler {
    /// Lets waiting requests in, in order, while their tokens fit and everybody who runs has room to
    /// grow. One whose next tokens a running request computes is passed over until they are there;
    /// one that does not fit holds up those behind it, so that its pages come together.
    pub(crate) fn admit(&mut self, now_s: f64) -> Awaited {
        let mut awaited = Awaited::new();
        if self.waiting.is_empty() {
            return awaited;
        }
        let mut passed_over = HashSet::new();
        let mut obligations = self.obligations();
        while self.running.len() < self.config.max_running && passed_over.len() <= MAX_PASSED_OVER {
            let Some((rank, key)) = self.next_waiting(&passed_over, &obligations, now_s) else {
                break;
            };
            let prefix = self.find_prefix(&key);
            let Some(sequence) = self.waiting.get(&key) else {
                break;
            };
            if let Some(other) = self.computing(sequence, &prefix) {
                passed_over.insert(key);
                let best = awaited.entry(other).or_insert(rank);
                *best = rank.min(*best);
                continue;
            }
            if !self.has_room(sequence, &prefix) {
                break;
            }
            let Some(mut sequence) = self.waiting.admit(&key, now_s) else {
                break;
            };
            self.is_pressed = false;
            self.seat_prefix(key, &mut sequence, prefix);
            sequence.note_admission(now_s);
            let expected = self.expected_tokens(&sequence);
            let served = self.share.served(&sequence.tenant);
            *obligations.entry(sequence.tenant.clone()).or_insert(served) += expected;
            self.running.insert(key, sequence);
        }
        awaited
    }

    /// The waiting request that goes first.
    fn next_waiting(
        &self,
        passed_over: &HashSet<RequestKey>,
        obligations: &Obligations,
        now_s: f64,
    ) -> Option<(Rank, RequestKey)> {
        let heads = self.waiting.heads(passed_over).map(|head| {
            let tenant = &head.sequence.tenant;
            let served = obligations.get(tenant).copied();
            let served = served.unwrap_or_else(|| self.share.served(tenant));
            let rank = self.rank(head.key, head.sequence, head.waiting_since_s, served, now_s);
            (rank, head.key)
        });
        heads.min_by_key(|&(rank, _)| rank)
    }

    /// Whether a request's tokens fit, with room for it and all others to grow. One alone always
    /// fits: else it would have been refused.
    fn has_room(&self, sequence: &Sequence, prefix: &CachedPrefix) -> bool {
        let num_idle = self.pool.num_idle_of(&prefix.pages);
        let num_new = self.pool.pages_for(sequence.tokens.len()) - prefix.pages.len();
        let needed = num_new + num_idle;
        if self.running.is_empty() {
            return needed <= self.pool.num_available();
        }
        let ahead = if self.is_pressed {
            PRESSED_LOOKAHEAD * self.config.lookahead_tokens
        } else {
            self.config.lookahead_tokens
        };
        let growth = |one: &Sequence, num_pages: usize| {
            let most = one.tokens.len() + one.num_left().min(ahead);
            self.pool.pages_for(most).saturating_sub(num_pages)
        };
        let others = self.running.values();
        let others: usize = others.map(|one| growth(one, one.pages.len())).sum();
        let own = growth(sequence, self.pool.pages_for(sequence.tokens.len()));
        needed + own + others <= self.pool.num_available()
    }

    /// Gives every decoding request a slot for its last token, taking pages from others when they
    /// run out; tells whether any were taken.
    pub(crate) fn secure_decoding(&mut self, now_s: f64) -> (Vec<RequestKey>, bool) {
        let decoding = self.running.iter().filter(|(_, one)| one.decoding);
        let mut keys: Vec<RequestKey> = decoding.map(|(&key, _)| key).collect();
        let mut preempted = false;
        for &key in &keys {
            while let Some(sequence) = self.running.get_mut(&key) {
                if self.pool.grow(&mut sequence.pages, sequence.kv_len + 1) {
                    break;
                }
                preempted = true;
                let victim = self.victim().unwrap_or(key);
                self.preempt(victim, now_s);
            }
        }
        keys.retain(|key| self.running.contains_key(key));
        (keys, preempted)
    }

    /// Takes the pages of a request; it waits and computes again what nobody else keeps.
    fn preempt(&mut self, key: RequestKey, now_s: f64) {
        if let Some(mut sequence) = self.running.remove(&key) {
            self.pool.shrink(&mut sequence.pages, 0);
            sequence.restart();
            sequence.note_preemption(now_s);
            self.totals.preemptions += 1;
            self.is_pressed = true;
            self.waiting.insert(key, sequence);
        }
    }

    /// How many prompt tokens of which requests a step computes beside the decoding `trees`.
    pub(crate) fn choose_chunks(
        &mut self,
        trees: &[RequestKey],
        awaited: &Awaited,
        now_s: f64,
    ) -> Vec<(RequestKey, usize)> {
        let prefilling = self.running.iter().filter(|(_, one)| !one.decoding);
        let mut ranks: Vec<Rank> = prefilling
            .map(|(&key, one)| {
                let served = self.share.served(&one.tenant);
                let rank = self.rank(key, one, one.waiting_since_s, served, now_s);
                awaited
                    .get(&key)
                    .map_or(rank, |best| rank.min(best.of(key)))
            })
            .collect();
        ranks.sort_unstable();
        let config = &self.config;
        let most = config.chunk_tokens.min(config.max_batch_rows - trees.len());
        // Where nobody waits for the step, it may take its time.
        let least = if trees.is_empty() {
            most
        } else {
            config.page_size.min(most)
        };
        let mut size = ForwardSize {
            rows: trees.len(),
            kv_tokens: self.kv_tokens_of(trees),
        };
        let mut chunks = Vec::new();
        for key in ranks.into_iter().map(Rank::key) {
            let num_before = size.rows - trees.len();
            let Some(sequence) = self.running.get(&key) else {
                continue;
            };
            let kv_len = sequence.kv_len;
            let wanted = sequence.num_missing().min(most - num_before);
            let rows = self.rows_in_time(size, kv_len, least.saturating_sub(num_before), wanted);
            if rows == 0 {
                break;
            }
            size = size.with_chunk(kv_len, rows);
            if let Some(sequence) = self.running.get_mut(&key) {
                sequence.waiting_since_s = now_s;
            }
            chunks.push((key, rows));
        }
        chunks
    }

    /// How many of the `wanted` next prompt rows of a request a step of `size` takes without becoming
    /// longer than it may, `least` of them in any case.
    fn rows_in_time(&self, size: ForwardSize, kv_len: usize, least: usize, wanted: usize) -> usize {
        let fits = |rows| {
            let size = size.with_chunk(kv_len, rows);
            self.costs.milliseconds(size) <= self.config.max_step_ms
        };
        let (mut low, mut high) = (least.min(wanted), wanted);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if fits(middle) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        low
    }
}
