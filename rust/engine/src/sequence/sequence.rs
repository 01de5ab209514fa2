//! One request while the engine holds it.

use std::ops::Range;
use std::sync::Arc;

use spectrie_sampling::{Draw, GrammarEnd, GrammarState, History, TokenLogprobs, completions};
use spectrie_trie::{DraftMemory, DraftTree};
use spectrie_types::{FinishKind, Source};

use crate::cache::pool::FoundPages;
use crate::config::EngineConfig;
use crate::output::{Finish, RequestStats};
use crate::request::Request;
use crate::speculation::drafting::Drafting;

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
/// `tokens[..kv_len]` are in the cache. While `decoding`, exactly the last token is not.
#[derive(Debug)]
pub(crate) struct Sequence {
    pub(crate) request: Request,
    /// Prompt ++ output.
    pub(crate) tokens: Vec<u32>,
    pub(crate) kv_len: usize,
    pub(crate) decoding: bool,
    pub(crate) pages: Vec<u32>,
    /// What the cache held of its text when it last waited.
    pub(crate) found: FoundPages,
    /// Pages from the first on that others can find.
    pub(crate) num_shared: usize,
    /// Whether others may find its pages.
    pub(crate) shares: bool,
    /// Whose pages it may take, and who may take its own.
    pub(crate) namespace: Arc<str>,
    /// Whose fair share it takes.
    pub(crate) tenant: Arc<str>,
    /// When it came, was last given prompt rows or lost its pages.
    pub(crate) waiting_since_s: f64,
    /// Logical (from, to) of accepted rows that are not yet in place.
    pub(crate) moves: Vec<(usize, usize)>,
    pub(crate) drafting: Drafting,
    /// Source of each token this attempt emitted.
    sources: Vec<Source>,
    /// Tokens that end the answer: the request's own, then the model's.
    ending_ids: Vec<u32>,
    /// Tokens that may not come next.
    masked: Vec<u32>,
    history: Option<History>,
    /// Log-probabilities of output tokens that are not given out yet.
    logprobs: Vec<TokenLogprobs>,
    /// Those of the prompt's tokens from the second on, as far as they are known; `None` when they
    /// are not wanted or were given out.
    prompt_logprobs: Option<Vec<TokenLogprobs>>,
    grammar: Option<GrammarState>,
    num_prompt: usize,
    drafted_tokens: u32,
    cached_tokens: usize,
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
        let namespace: Arc<str> = Arc::from(request.namespace.as_str());
        let tenant = request
            .tenant
            .take()
            .map_or_else(|| Arc::clone(&namespace), Arc::from);
        let num_prompt = tokens.len();
        let prompt_logprobs = request
            .prompt_logprobs
            .filter(|_| request.emitted_token_ids.is_empty())
            .map(|_| Vec::new());
        let history = request.sampling.has_penalties().then(|| {
            let mut history = History::new(&tokens);
            request
                .emitted_token_ids
                .iter()
                .for_each(|&token| history.push(token));
            history
        });
        tokens.append(&mut request.emitted_token_ids);
        let drafting = Drafting::new(&request, &tokens, num_prompt, config, memory);
        let grammar = request.grammar.take().map(|grammar| {
            let mut state = GrammarState::new(grammar, !request.ignore_eos);
            state.push(&tokens[num_prompt..]);
            state
        });
        request.prediction_ids = Vec::new();
        let mut ending_ids = request.stop_token_ids.clone();
        if !request.ignore_eos {
            ending_ids.extend_from_slice(&config.eos_token_ids);
        }
        let mut sequence = Self {
            request,
            tokens,
            kv_len: 0,
            decoding: false,
            pages: Vec::new(),
            found: FoundPages::default(),
            num_shared: 0,
            shares: true,
            namespace,
            tenant,
            waiting_since_s: arrived_s,
            moves: Vec::new(),
            drafting,
            sources: Vec::new(),
            ending_ids,
            masked: Vec::new(),
            history,
            logprobs: Vec::new(),
            prompt_logprobs,
            grammar,
            num_prompt,
            drafted_tokens: 0,
            cached_tokens: 0,
            preemptions: 0,
            arrived_s,
            admitted_s: None,
            first_token_s: None,
        };
        sequence.mask();
        sequence
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

    /// Whether nothing but the largest raw logits is wanted, now and after any further tokens.
    pub(crate) fn is_plain_greedy(&self) -> bool {
        self.request.sampling.is_greedy()
            && self.history.is_none()
            && self.grammar.is_none()
            && self.request.sampling.logit_bias.is_empty()
            && self.request.bad_words.is_empty()
            && self.masked.is_empty()
            && self.request.logprobs.is_none()
            && self.prompt_logprobs.is_none()
    }

    /// Whether rows of the prompt must still be computed for their logits, so that none may be
    /// taken from elsewhere.
    pub(crate) fn needs_prompt_rows(&self) -> bool {
        self.num_prompt_rows(self.num_prompt) > 0
    }

    /// How many of the first `count` rows still to be computed for the prompt's log-probabilities
    /// there are: rows of tokens before index `count`, each of which tells that of the next token.
    fn num_prompt_rows(&self, count: usize) -> usize {
        let known = |known: &Vec<TokenLogprobs>| {
            count
                .min(self.num_prompt.saturating_sub(1))
                .saturating_sub(known.len())
        };
        self.prompt_logprobs.as_ref().map_or(0, known)
    }

    /// Tokens by index whose rows must give logits when the next `rows` tokens are computed: always
    /// the last of these.
    pub(crate) fn sampled_indices(&self, rows: usize) -> Range<usize> {
        let end = self.kv_len + rows;
        let last = usize::from(end == self.tokens.len());
        end - (self.num_prompt_rows(end) + last)..end
    }

    /// Notes what the model thought of the next token of the prompt.
    pub(crate) fn push_prompt_logprobs(&mut self, logprobs: TokenLogprobs) {
        if let Some(known) = &mut self.prompt_logprobs {
            known.push(logprobs);
        }
    }

    /// Gives out the log-probabilities of the prompt, once; nothing for its first token.
    pub(crate) fn take_prompt_logprobs(&mut self) -> Option<Vec<Option<TokenLogprobs>>> {
        let known = self.prompt_logprobs.take()?;
        Some(
            std::iter::once(None)
                .chain(known.into_iter().map(Some))
                .collect(),
        )
    }

    /// Gives out the log-probabilities of the output tokens since the last call.
    pub(crate) fn take_logprobs(&mut self) -> Option<Vec<TokenLogprobs>> {
        self.request.logprobs?;
        Some(std::mem::take(&mut self.logprobs))
    }

    /// Finds the tokens that may not come next.
    fn mask(&mut self) {
        self.masked.clear();
        if self.num_output() < self.request.min_tokens as usize {
            self.masked.extend_from_slice(&self.ending_ids);
        }
        let output = &self.tokens[self.num_prompt..];
        self.masked
            .extend(completions(&self.request.bad_words, output));
    }

    /// The options that may bar every token, for the caller whose request they ended.
    pub(crate) fn bars(&self) -> String {
        let sampling = &self.request.sampling;
        let bars = [
            ("bad_words", !self.request.bad_words.is_empty()),
            (
                "min_tokens",
                self.num_output() < self.request.min_tokens as usize,
            ),
            ("logit_bias", !sampling.logit_bias.is_empty()),
            ("penalties", self.history.is_some()),
        ];
        let named: Vec<&str> = bars.iter().filter(|bar| bar.1).map(|bar| bar.0).collect();
        named.join(", ")
    }

    /// Whether a grammar decides what may be drawn.
    pub(crate) fn has_grammar(&self) -> bool {
        self.grammar.is_some()
    }

    /// Finds out what the grammar, if there is one, allows next.
    ///
    /// # Errors
    /// Nothing can be drawn.
    pub(crate) fn prepare_draw(&mut self) -> Result<(), GrammarEnd> {
        self.grammar.as_mut().map_or(Ok(()), GrammarState::prepare)
    }

    /// What decides the next token, beside its logits; [`Self::prepare_draw`] goes before it.
    pub(crate) fn next_draw(&self) -> Draw<'_> {
        Draw {
            parameters: &self.request.sampling,
            history: self.history.as_ref(),
            masked: &self.masked,
            allowed: self.grammar.as_ref().and_then(GrammarState::allowed),
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
        if self.grammar.as_ref().is_some_and(GrammarState::is_complete) {
            return Some(FinishKind::Complete);
        }
        (self.num_left() == 0).then_some(FinishKind::Length)
    }

    /// Drafts as the grammar, if there is one, has them; none once the answer has come to its end.
    pub(crate) fn shape(&mut self, tree: DraftTree, most: usize) -> DraftTree {
        if self.grammar.as_ref().is_some_and(GrammarState::has_ended) {
            return DraftTree::default();
        }
        self.drafting.shape(tree, most)
    }

    /// Appends a drawn token; its source may be changed until the next one.
    pub(crate) fn push(&mut self, drawn: Drawn, now_s: f64) {
        let token = drawn.token;
        self.tokens.push(token);
        self.sources.push(Source::Model);
        self.logprobs.extend(drawn.logprobs);
        if let Some(history) = &mut self.history {
            history.push(token);
        }
        if let Some(grammar) = &mut self.grammar {
            grammar.push(&[token]);
        }
        self.first_token_s.get_or_insert(now_s);
        self.mask();
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

    /// When its answer is due, in microseconds.
    pub(crate) fn due_us(&self) -> i64 {
        let due_s = self
            .request
            .deadline_s
            .unwrap_or(self.arrived_s + DUE_AFTER_S);
        (due_s * 1e6) as i64
    }

    /// Tokens that are in the cache, each in its place.
    pub(crate) fn num_settled(&self) -> usize {
        self.moves.first().map_or(self.kv_len, |&(_, to)| to)
    }

    /// Notes that the first `count` tokens were found in the cache; gives how many of the prompt
    /// that spares, `None` for one that was computed before.
    pub(crate) fn note_cached(&mut self, count: usize) -> Option<usize> {
        if self.preemptions > 0 {
            return None;
        }
        self.cached_tokens = count.min(self.num_prompt);
        Some(self.cached_tokens)
    }

    pub(crate) fn note_drafts(&mut self, count: usize) {
        self.drafted_tokens += count as u32;
    }

    /// Forgets what is in the cache, so that everything is computed again.
    pub(crate) fn restart(&mut self) {
        self.kv_len = 0;
        self.num_shared = 0;
        self.decoding = false;
        self.moves.clear();
    }

    pub(crate) fn note_preemption(&mut self, now_s: f64) {
        self.preemptions += 1;
        self.waiting_since_s = now_s;
    }

    /// Hands the drafter the tokens computed so far.
    pub(crate) fn feed(&mut self) {
        self.drafting.feed(&self.tokens[..self.num_computed()]);
    }

    /// Teaches the namespace what was computed so far and can no longer be cut.
    pub(crate) fn teach_running(&mut self) {
        let computed = self.num_computed();
        self.drafting.teach_running(&self.tokens[..computed]);
    }

    /// Tokens that the forwards so far went over or gave.
    fn num_computed(&self) -> usize {
        if self.decoding {
            self.tokens.len()
        } else {
            self.kv_len
        }
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
            cached_tokens: self.cached_tokens as u32,
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
