//! One request while the engine holds it.

use std::cmp::Reverse;

use spectrie_trie::{DraftMemory, Source};

use crate::config::EngineConfig;
use crate::drafting::Drafting;
use crate::output::{Finish, FinishKind, RequestStats};
use crate::request::Request;
use crate::sampler::{Draw, History};

/// Who goes first: larger priority, then earlier arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct OrderKey {
    priority: Reverse<i32>,
    arrival: u64,
}

impl OrderKey {
    pub(crate) fn new(priority: i32, arrival: u64) -> Self {
        Self {
            priority: Reverse(priority),
            arrival,
        }
    }
}

/// A request's tokens, its place in the cache and its counts.
///
/// `tokens[..kv_len]` are in the cache. While `decoding`, exactly the last token is not.
#[derive(Debug)]
pub(crate) struct Sequence {
    pub(crate) request: Request,
    /// Prompt ++ output.
    pub(crate) tokens: Vec<u32>,
    pub(crate) kv_len: usize,
    pub(crate) decoding: bool,
    pub(crate) pages: Vec<u32>,
    /// Logical (from, to) of accepted rows that are not yet in place.
    pub(crate) moves: Vec<(usize, usize)>,
    pub(crate) drafting: Drafting,
    /// Source of each token this attempt emitted.
    sources: Vec<Source>,
    /// Tokens that end the answer: the request's own, then the model's.
    ending_ids: Vec<u32>,
    history: Option<History>,
    num_prompt: usize,
    drafted_tokens: u32,
    preemptions: u32,
    arrived_s: f64,
    admitted_s: Option<f64>,
    first_token_s: Option<f64>,
}

impl Sequence {
    pub(crate) fn new(
        mut request: Request,
        config: &EngineConfig,
        memory: Option<&DraftMemory>,
        arrived_s: f64,
    ) -> Self {
        let mut tokens = std::mem::take(&mut request.prompt_ids);
        let num_prompt = tokens.len();
        let history = request.sampling.has_penalties().then(|| {
            let mut history = History::new(&tokens);
            request
                .emitted_token_ids
                .iter()
                .for_each(|&token| history.push(token));
            history
        });
        tokens.append(&mut request.emitted_token_ids);
        let drafting = Drafting::new(&request, num_prompt, config, memory);
        request.prediction_ids = Vec::new();
        let mut ending_ids = request.stop_token_ids.clone();
        if !request.ignore_eos {
            ending_ids.extend_from_slice(&config.eos_token_ids);
        }
        Self {
            request,
            tokens,
            kv_len: 0,
            decoding: false,
            pages: Vec::new(),
            moves: Vec::new(),
            drafting,
            sources: Vec::new(),
            ending_ids,
            history,
            num_prompt,
            drafted_tokens: 0,
            preemptions: 0,
            arrived_s,
            admitted_s: None,
            first_token_s: None,
        }
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
        self.tokens.len() - self.kv_len
    }

    /// Tokens that may still be emitted.
    pub(crate) fn num_left(&self) -> usize {
        (self.request.max_tokens as usize).saturating_sub(self.num_output())
    }

    /// Whether the largest raw logit is always the token.
    pub(crate) fn is_plain_greedy(&self) -> bool {
        self.request.sampling.is_greedy()
            && self.history.is_none()
            && self.request.sampling.logit_bias.is_empty()
            && self.masked().is_empty()
    }

    fn masked(&self) -> &[u32] {
        if self.num_output() < self.request.min_tokens as usize {
            &self.ending_ids
        } else {
            &[]
        }
    }

    /// What decides the next token, beside its logits.
    pub(crate) fn next_draw(&self) -> Draw<'_> {
        Draw {
            parameters: &self.request.sampling,
            history: self.history.as_ref(),
            masked: self.masked(),
            choice_seed: self.request.choice_seed,
            position: self.tokens.len() as u32,
        }
    }

    /// Why the answer ends after its tokens so far, if it does.
    pub(crate) fn ending(&self) -> Option<FinishKind> {
        let last = self.tokens[self.num_prompt..].last();
        if let Some(last) = last.filter(|last| self.ending_ids.contains(last)) {
            let is_eos = self.ending_ids[self.request.stop_token_ids.len()..].contains(last);
            return Some(if is_eos {
                FinishKind::Eos
            } else {
                FinishKind::StopToken
            });
        }
        (self.num_left() == 0).then_some(FinishKind::Length)
    }

    /// Appends a drawn token; its source may be changed until the next one.
    pub(crate) fn push(&mut self, token: u32, now_s: f64) {
        self.tokens.push(token);
        self.sources.push(Source::Model);
        if let Some(history) = &mut self.history {
            history.push(token);
        }
        self.first_token_s.get_or_insert(now_s);
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
        (
            self.tokens[start..].to_vec(),
            self.sources[first..]
                .iter()
                .map(|&source| source as u8)
                .collect(),
        )
    }

    /// Tokens this attempt emitted.
    pub(crate) fn num_emitted(&self) -> usize {
        self.sources.len()
    }

    pub(crate) fn note_admission(&mut self, now_s: f64) {
        self.admitted_s.get_or_insert(now_s);
    }

    pub(crate) fn note_drafts(&mut self, count: usize) {
        self.drafted_tokens += count as u32;
    }

    /// Forgets what is in the cache, so that everything is computed again.
    pub(crate) fn restart(&mut self) {
        self.kv_len = 0;
        self.decoding = false;
        self.moves.clear();
        self.preemptions += 1;
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
        let mut stats = RequestStats {
            drafted_tokens: self.drafted_tokens,
            preemptions: self.preemptions,
            accepted_prediction_tokens: self
                .drafting
                .accepted_prediction_tokens(self.sources.len() - kept),
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
        let admitted_s = self.admitted_s.unwrap_or(now_s);
        let first_token_s = self.first_token_s.unwrap_or(now_s);
        stats.queue_ns = nanoseconds(self.arrived_s, admitted_s);
        if self.admitted_s.is_some() {
            stats.prefill_ns = nanoseconds(admitted_s, first_token_s);
        }
        if self.first_token_s.is_some() {
            stats.decode_ns = nanoseconds(first_token_s, now_s);
        }
        Finish {
            kind,
            message,
            stats,
        }
    }
}

fn nanoseconds(from_s: f64, to_s: f64) -> u64 {
    ((to_s - from_s).max(0.0) * 1e9) as u64
}
