//! One request while the engine holds it.

use std::ops::Range;
use std::sync::Arc;

use spectrie_sampling::TokenLogprobs;
use spectrie_trie::tenant_of;
use spectrie_types::{FinishKind, Source};

use super::draw_state::DrawState;
use super::timeline::Timeline;
use crate::background::{Feedback, Learner, Share};
use crate::cache::{Cache, CachedPrefix, PageTable, Resident};
use crate::output::{Finish, RequestStats};
use crate::request::{Request, StopFinder};
use crate::request_key::RequestKey;
use crate::speculation::{Candidate, Drafting, Speculator};

/// Answers are due so long after they were asked for where no deadline says otherwise.
const DUE_AFTER_S: f64 = 600.0;

/// A drawn token, with what the model thought of it where that is wanted.
#[derive(Debug)]
pub(crate) struct Drawn {
    pub(crate) token: u32,
    pub(crate) logprobs: Option<TokenLogprobs>,
}

/// A request's tokens, its place in the cache and its counts.
///
/// Its page table holds the keys and values of the first `kv_len` tokens. While `decoding`, those of
/// exactly the last token are missing.
#[derive(Debug)]
pub(crate) struct Sequence {
    pub(crate) request: Request,
    /// Prompt ++ output.
    pub(crate) tokens: Vec<u32>,
    pub(crate) decoding: bool,
    /// Whether it runs in room that one before it waits for, and gives back when that one fits.
    pub(crate) is_guest: bool,
    pub(crate) table: PageTable,
    pub(crate) drafting: Drafting,
    pub(crate) draws: DrawState,
    stops: Option<Box<dyn StopFinder>>,
    /// Output tokens that count, once a stop text was found.
    stopped_at: Option<u32>,
    pub(crate) timeline: Timeline,
    /// Whose fair share it takes.
    pub(crate) tenant: Arc<str>,
    /// What its rows added to the time of steps, by the cost curve.
    pub(crate) work_ms: f64,
    /// Source of each token this attempt emitted.
    sources: Vec<Source>,
    num_prompt: usize,
    drafted_tokens: u32,
    cached_tokens: usize,
    preemptions: u32,
}

impl Sequence {
    /// A request that came at `arrived_s`, to a model with these end-of-sequence tokens.
    pub(crate) fn new(
        mut request: Request,
        eos_token_ids: &[u32],
        speculator: &Speculator,
        arrived_s: f64,
    ) -> Self {
        let mut tokens = std::mem::take(&mut request.prompt_ids);
        let num_prompt = tokens.len();
        tokens.append(&mut request.emitted_token_ids);
        let namespace: Arc<str> = Arc::from(request.namespace.as_str());
        let drafting = speculator.drafting(&request, &tokens, num_prompt);
        let tenant = request
            .tenant
            .take()
            .map_or_else(|| Arc::from(tenant_of(&namespace)), Arc::from);
        request.prediction_ids = Vec::new();
        let (prompt, output) = tokens.split_at(num_prompt);
        let draws = DrawState::new(&mut request, prompt, output, eos_token_ids);
        let mut stops = request.stops.take();
        let stopped_at = stops.as_mut().and_then(|stops| stops.push(output));
        Self {
            table: PageTable::new(namespace, request.learn),
            request,
            tokens,
            decoding: false,
            is_guest: false,
            drafting,
            draws,
            stops,
            stopped_at: stopped_at.map(|count| count as u32),
            timeline: Timeline::new(arrived_s),
            tenant,
            work_ms: 0.0,
            sources: Vec::new(),
            num_prompt,
            drafted_tokens: 0,
            cached_tokens: 0,
            preemptions: 0,
        }
    }

    /// As the cache sees it.
    pub(crate) fn resident(&self, key: RequestKey) -> Resident<'_> {
        Resident {
            key,
            table: &self.table,
            tokens: &self.tokens,
        }
    }

    /// As it is asked for drafts.
    pub(crate) fn candidate(&mut self, is_limited: bool) -> Candidate<'_> {
        Candidate {
            is_limited,
            kv_len: self.kv_len(),
            num_left: self.num_left(),
            grammar_has_ended: self.draws.grammar_has_ended(),
            drafting: &mut self.drafting,
        }
    }

    /// Bytes of its token ids; they stay the same while it waits.
    pub(crate) fn id_bytes(&self) -> usize {
        (self.tokens.len() + self.drafting.prediction_ids().len()) * size_of::<u32>()
    }

    pub(crate) fn kv_len(&self) -> usize {
        self.table.kv_len()
    }

    pub(crate) fn num_prompt(&self) -> usize {
        self.num_prompt
    }

    /// Output tokens, those of earlier attempts included.
    pub(crate) fn num_output(&self) -> usize {
        self.tokens.len() - self.num_prompt
    }

    /// Tokens that must be computed before the next one can be drawn.
    pub(crate) fn num_missing(&self) -> usize {
        self.tokens.len() - self.kv_len()
    }

    /// Tokens that may still be emitted.
    pub(crate) fn num_left(&self) -> usize {
        (self.request.max_tokens as usize).saturating_sub(self.num_output())
    }

    /// Whether rows of the prompt must still be computed for their logits, so that none may be
    /// taken from elsewhere.
    pub(crate) fn needs_prompt_rows(&self) -> bool {
        self.draws.num_prompt_rows(self.num_prompt, self.num_prompt) > 0
    }

    /// Its tokens whose keys may come from the cache, from the first on: all but the last, which is to
    /// be answered.
    pub(crate) fn reusable(&self) -> &[u32] {
        &self.tokens[..self.num_reusable()]
    }

    fn num_reusable(&self) -> usize {
        if self.needs_prompt_rows() {
            return 0;
        }
        self.tokens.len().saturating_sub(1)
    }

    /// The full pages that it may take while it waits.
    pub(crate) fn find_prefix(&mut self, cache: &Cache) -> CachedPrefix {
        let end = self.num_reusable();
        cache.find(&mut self.table, &self.tokens[..end])
    }

    /// Takes its place in the cache beside those that run.
    pub(crate) fn seat<'a>(
        &mut self,
        key: RequestKey,
        cache: &mut Cache,
        prefix: CachedPrefix,
        running: impl Iterator<Item = Resident<'a>>,
    ) {
        let (num_tokens, end) = (self.tokens.len(), self.num_reusable());
        let reusable = &self.tokens[..end];
        let owner = key.arrival();
        cache.seat(
            owner,
            &mut self.table,
            prefix,
            num_tokens,
            reusable,
            running,
        );
    }

    /// Gives its pages back, so that everything is computed again.
    pub(crate) fn vacate(&mut self, key: RequestKey, cache: &mut Cache) {
        cache.vacate(key.arrival(), &mut self.table);
        self.decoding = false;
        self.is_guest = false;
    }

    /// Tokens by index whose rows must give logits when the next `rows` tokens are computed: always
    /// the last of these.
    pub(crate) fn sampled_indices(&self, rows: usize) -> Range<usize> {
        let end = self.kv_len() + rows;
        let last = usize::from(end == self.tokens.len());
        end - (self.draws.num_prompt_rows(end, self.num_prompt) + last)..end
    }

    /// Output tokens that count, where a stop text ends the answer.
    pub(crate) fn stopped_at(&self) -> Option<u32> {
        self.stopped_at
    }

    /// Tokens of prompt ++ output that no stop text cuts which is found later; of a request without any
    /// more than there are.
    pub(crate) fn num_certain(&self) -> usize {
        let stops = self.stops.as_ref();
        stops.map_or(usize::MAX, |stops| self.num_prompt + stops.num_certain())
    }

    /// Why the answer ends after its tokens so far, if it does.
    pub(crate) fn ending(&self) -> Option<FinishKind> {
        if self.stopped_at.is_some() {
            return Some(FinishKind::Complete);
        }
        let ending = self.draws.ending(&self.tokens[self.num_prompt..]);
        ending.or_else(|| (self.num_left() == 0).then_some(FinishKind::Length))
    }

    /// Appends a drawn token; its source may be changed until the next one.
    pub(crate) fn push(&mut self, drawn: Drawn, now_s: f64) {
        self.tokens.push(drawn.token);
        self.sources.push(Source::Model);
        let output = &self.tokens[self.num_prompt..];
        self.draws.push(drawn.token, drawn.logprobs, output);
        if let Some(stops) = &mut self.stops {
            let stopped_at = stops.push(&[drawn.token]);
            self.stopped_at = stopped_at.map(|count| count as u32);
        }
        self.timeline.emit(now_s);
    }

    /// Credits the last pushed token to a draft node.
    pub(crate) fn credit_last(&mut self, source: Source) {
        if let Some(last) = self.sources.last_mut() {
            *last = source;
        }
    }

    /// Tokens and sources this attempt emitted, from its `first`-th on.
    pub(crate) fn emitted_since(&self, first: usize) -> (Vec<u32>, Vec<u8>) {
        let start = self.tokens.len() - self.sources.len() + first;
        let sources = self.sources[first..].iter().map(|source| source.number());
        (self.tokens[start..].to_vec(), sources.collect())
    }

    /// Tokens this attempt emitted.
    pub(crate) fn num_emitted(&self) -> usize {
        self.sources.len()
    }

    /// Tokens of its prompt that were found in the cache.
    pub(crate) fn num_cached(&self) -> usize {
        self.cached_tokens
    }

    /// When its answer is due, in microseconds.
    pub(crate) fn due_us(&self) -> i64 {
        let due_s = self
            .request
            .deadline_s
            .unwrap_or(self.timeline.arrived_s() + DUE_AFTER_S);
        (due_s * 1e6) as i64
    }

    /// Whether its deadline is over.
    pub(crate) fn is_overdue(&self, now_s: f64) -> bool {
        self.request
            .deadline_s
            .is_some_and(|deadline_s| deadline_s <= now_s)
    }

    /// Notes that its first `kv_len` tokens were found in the cache; gives how many of the prompt
    /// that spares, `None` for one that was computed before.
    pub(crate) fn note_cached(&mut self) -> Option<usize> {
        if self.preemptions > 0 {
            return None;
        }
        self.cached_tokens = self.kv_len().min(self.num_prompt);
        Some(self.cached_tokens)
    }

    /// Notes how many drafts were sent for it.
    pub(crate) fn note_drafts(&mut self, count: usize) {
        self.drafted_tokens += count as u32;
    }

    /// Notes that it lost its pages to others.
    pub(crate) fn note_preemption(&mut self, now_s: f64) {
        self.preemptions += 1;
        self.timeline.wait_from(now_s);
    }

    /// Hands the drafter the tokens computed so far.
    pub(crate) fn feed(&mut self) {
        self.drafting.feed(&self.tokens[..self.num_computed()]);
    }

    /// Tokens that the forwards so far went over or gave.
    fn num_computed(&self) -> usize {
        if self.decoding {
            self.tokens.len()
        } else {
            self.kv_len()
        }
    }

    /// Tokens that are worth learning of an answer that ends: the prompt and `keep_tokens` output
    /// tokens, or all; none that may lie behind a stop text.
    pub(crate) fn num_kept(&self, keep_tokens: Option<u32>) -> usize {
        let kept = keep_tokens.map_or(usize::MAX, |kept| kept as usize);
        let kept = self.num_prompt + kept.min(self.num_output());
        kept.min(self.num_certain())
    }

    /// The end of this request; `keep_tokens` output tokens count, or all.
    pub(crate) fn finish(
        &self,
        kind: FinishKind,
        message: Option<String>,
        keep_tokens: Option<u32>,
        now_s: f64,
    ) -> Finish {
        let earlier = self.num_output() - self.num_emitted();
        let kept = keep_tokens.map_or(usize::MAX, |kept| (kept as usize).saturating_sub(earlier));
        let kept = kept.min(self.sources.len());
        let durations = self.timeline.durations(now_s);
        let mut stats = RequestStats {
            drafted_tokens: self.drafted_tokens,
            cached_tokens: self.cached_tokens as u32,
            preemptions: self.preemptions,
            accepted_prediction_tokens: self
                .drafting
                .accepted_prediction_tokens(self.sources.len() - kept),
            queue_ns: durations.queue_ns,
            prefill_ns: durations.prefill_ns,
            decode_ns: durations.decode_ns,
            ..RequestStats::default()
        };
        // The last token of each forward is the model's own, also where a cut makes it the last.
        for (index, &source) in self.sources[..kept].iter().enumerate() {
            if source == Source::Model || index + 1 == kept {
                stats.verify_steps += u32::from(index > 0);
            } else {
                stats.accepted_tokens += 1;
                stats.accepted_by_source[source as usize] += 1;
            }
        }
        Finish {
            kind,
            message,
            keep_tokens,
            stats,
        }
    }
}

impl Learner for Sequence {
    fn learn(&mut self, feedback: &Feedback, share: &Share) {
        self.feed();
        let num_certain = self.num_certain();
        feedback.teach(share, num_certain, &mut self.drafting);
        let num_computed = self.num_computed();
        self.drafting
            .teach_running(&self.tokens[..num_computed], num_certain);
    }

    fn end(mut self: Box<Self>, num_kept: Option<usize>) -> Option<Box<Self>> {
        let is_over = num_kept.is_none_or(|num_kept| {
            let kept = &self.tokens[..num_kept];
            self.drafting.teach_rest(kept)
        });
        (!is_over).then_some(self)
    }
}
