//! What decides the next token of one request, beside its logits.

use spectrie_sampling::{
    Draw, GrammarEnd, GrammarState, History, SamplingParameters, TokenLogprobs, completions,
};
use spectrie_types::FinishKind;

use crate::request::Request;

/// Sampling options of one request, and what its tokens so far make of them.
#[derive(Debug)]
pub(crate) struct DrawState {
    parameters: SamplingParameters,
    choice_seed: u64,
    bad_words: Vec<Vec<u32>>,
    min_tokens: usize,
    /// Tokens that end the answer: the request's own, then the model's.
    ending_ids: Vec<u32>,
    num_stop_ids: usize,
    /// Tokens that may not come next.
    masked: Vec<u32>,
    history: Option<History>,
    grammar: Option<GrammarState>,
    /// Alternatives to report with each output token; `None` reports no log-probabilities.
    num_top: Option<u32>,
    /// The same for the tokens of the prompt.
    num_prompt_top: Option<u32>,
    /// Log-probabilities of output tokens that are not given out yet.
    logprobs: Vec<TokenLogprobs>,
    /// Those of the prompt's tokens from the second on, as far as they are known; `None` when they
    /// are not wanted or were given out.
    prompt_logprobs: Option<Vec<TokenLogprobs>>,
}

impl DrawState {
    /// The state after `prompt` and `output`, what earlier attempts emitted. Takes the options out of
    /// `request`.
    pub(crate) fn new(
        request: &mut Request,
        prompt: &[u32],
        output: &[u32],
        eos_token_ids: &[u32],
    ) -> Self {
        let parameters = std::mem::take(&mut request.sampling);
        let history = parameters.has_penalties().then(|| {
            let mut history = History::new(prompt);
            for &token in output {
                history.push(token);
            }
            history
        });
        let grammar = request.grammar.take().map(|grammar| {
            let mut state = GrammarState::new(grammar, !request.ignore_eos);
            state.push(output);
            state
        });
        let mut ending_ids = std::mem::take(&mut request.stop_token_ids);
        let num_stop_ids = ending_ids.len();
        if !request.ignore_eos {
            ending_ids.extend_from_slice(eos_token_ids);
        }
        let wants_prompt = request.prompt_logprobs.filter(|_| output.is_empty());
        let mut state = Self {
            parameters,
            choice_seed: request.choice_seed,
            bad_words: std::mem::take(&mut request.bad_words),
            min_tokens: request.min_tokens as usize,
            ending_ids,
            num_stop_ids,
            masked: Vec::new(),
            history,
            grammar,
            num_top: request.logprobs,
            num_prompt_top: request.prompt_logprobs,
            logprobs: Vec::new(),
            prompt_logprobs: wants_prompt.map(|_| Vec::new()),
        };
        state.mask(output);
        state
    }

    /// Whether nothing but the largest raw logits is wanted, now and after any further tokens.
    pub(crate) fn is_plain_greedy(&self) -> bool {
        self.parameters.is_greedy()
            && self.history.is_none()
            && self.grammar.is_none()
            && self.parameters.logit_bias.is_empty()
            && self.bad_words.is_empty()
            && self.masked.is_empty()
            && self.is_drawable()
    }

    /// Whether nothing but drawn tokens is wanted, now and after any further tokens.
    pub(crate) fn is_drawable(&self) -> bool {
        self.num_top.is_none() && self.prompt_logprobs.is_none()
    }

    /// Whether a device can draw the token after the next one without the host's view of that: nothing
    /// depends on which token it is.
    pub(crate) fn is_known_ahead(&self) -> bool {
        self.is_drawable()
            && self.history.is_none()
            && self.grammar.is_none()
            && self.num_decisive() == 0
    }

    /// Takes the next token of the answer, which is now `output`.
    pub(crate) fn push(&mut self, token: u32, logprobs: Option<TokenLogprobs>, output: &[u32]) {
        self.logprobs.extend(logprobs);
        if let Some(history) = &mut self.history {
            history.push(token);
        }
        if let Some(grammar) = &mut self.grammar {
            grammar.push(&[token]);
        }
        self.mask(output);
    }

    /// Finds the tokens that may not come after `output`.
    fn mask(&mut self, output: &[u32]) {
        let mut masked = std::mem::take(&mut self.masked);
        masked.clear();
        masked.extend(self.masked_after(output.len(), output));
        self.masked = masked;
    }

    /// Tokens that may not come after an output of `num_output` tokens, of which `ending` has the last
    /// [`Self::num_decisive`] at least, or all.
    pub(super) fn masked_after<'a>(
        &'a self,
        num_output: usize,
        ending: &'a [u32],
    ) -> impl Iterator<Item = u32> + 'a {
        let may_end = num_output >= self.min_tokens;
        let too_early = if may_end { &[] } else { &self.ending_ids[..] };
        let too_early = too_early.iter().copied();
        too_early.chain(completions(&self.bad_words, ending))
    }

    /// How many of the last tokens decide what may not come next: all of a bad word but its end.
    pub(super) fn num_decisive(&self) -> usize {
        let lengths = self.bad_words.iter().map(Vec::len);
        lengths.max().map_or(0, |longest| longest.saturating_sub(1))
    }

    /// The options that may ban every token, for the caller whose request they ended.
    pub(crate) fn bans(&self, num_output: usize) -> String {
        let bans = [
            ("bad_words", !self.bad_words.is_empty()),
            ("min_tokens", num_output < self.min_tokens),
            ("logit_bias", !self.parameters.logit_bias.is_empty()),
            ("penalties", self.history.is_some()),
        ];
        let named: Vec<&str> = bans.iter().filter(|ban| ban.1).map(|ban| ban.0).collect();
        named.join(", ")
    }

    /// Whether a grammar decides what may be drawn.
    pub(crate) fn has_grammar(&self) -> bool {
        self.grammar.is_some()
    }

    /// Whether the grammar lets nothing more follow.
    pub(crate) fn grammar_has_ended(&self) -> bool {
        self.grammar.as_ref().is_some_and(GrammarState::has_ended)
    }

    /// Finds out what the grammar, if there is one, allows next.
    ///
    /// # Errors
    /// Nothing can be drawn.
    pub(crate) fn prepare(&mut self) -> Result<(), GrammarEnd> {
        self.grammar.as_mut().map_or(Ok(()), GrammarState::prepare)
    }

    /// What decides the token at `position`, beside its logits; [`Self::prepare`] goes before it.
    pub(crate) fn next_draw(&self, position: usize) -> Draw<'_> {
        Draw {
            parameters: &self.parameters,
            history: self.history.as_ref(),
            masked: &self.masked,
            allowed: self.grammar.as_ref().and_then(GrammarState::allowed),
            choice_seed: self.choice_seed,
            position: position as u32,
        }
    }

    /// Why the answer ends with its last token, whatever its length, if it does.
    pub(crate) fn ending(&self, output: &[u32]) -> Option<FinishKind> {
        let is_ending = |last: &&u32| self.ending_ids.contains(last);
        if let Some(last) = output.last().filter(is_ending) {
            let is_eos = self.ending_ids[self.num_stop_ids..].contains(last);
            return Some(if is_eos {
                FinishKind::Eos
            } else {
                FinishKind::StopToken
            });
        }
        let is_complete = self.grammar.as_ref().is_some_and(GrammarState::is_complete);
        is_complete.then_some(FinishKind::Complete)
    }

    /// Alternatives to report with each output token, if any log-probabilities.
    pub(crate) fn num_top(&self) -> Option<u32> {
        self.num_top
    }

    /// The same for the tokens of the prompt.
    pub(crate) fn num_prompt_top(&self) -> Option<u32> {
        self.num_prompt_top
    }

    /// How many of the first `count` rows of a prompt of `num_prompt` tokens must still be computed
    /// for its log-probabilities: each of them gives that of the next token.
    pub(crate) fn num_prompt_rows(&self, count: usize, num_prompt: usize) -> usize {
        let last = num_prompt.saturating_sub(1);
        let missing = |known: &Vec<TokenLogprobs>| count.min(last).saturating_sub(known.len());
        self.prompt_logprobs.as_ref().map_or(0, missing)
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
        let all = std::iter::once(None).chain(known.into_iter().map(Some));
        Some(all.collect())
    }

    /// Gives out the log-probabilities of the output tokens since the last call.
    pub(crate) fn take_logprobs(&mut self) -> Option<Vec<TokenLogprobs>> {
        self.num_top?;
        Some(std::mem::take(&mut self.logprobs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(request: &mut Request, output: &[u32]) -> DrawState {
        DrawState::new(request, &[1, 2], output, &[0])
    }

    #[test]
    fn ending_tokens_are_masked_until_the_answer_is_long_enough() {
        let mut request = Request::new(1, vec![1, 2], 9);
        request.stop_token_ids = vec![7];
        request.min_tokens = 2;
        let mut state = state(&mut request, &[]);
        assert_eq!(state.next_draw(2).masked, [7, 0]);
        assert!(!state.is_plain_greedy());
        state.push(3, None, &[3]);
        assert_eq!(
            (state.next_draw(3).masked, state.ending(&[3])),
            (&[7, 0][..], None)
        );
        state.push(7, None, &[3, 7]);
        assert_eq!(state.ending(&[3, 7]), Some(FinishKind::StopToken));
        assert_eq!(state.ending(&[3, 0]), Some(FinishKind::Eos));
        assert!(state.next_draw(4).masked.is_empty());
    }

    #[test]
    fn the_options_that_ban_tokens_are_named() {
        let mut request = Request::new(1, vec![1, 2], 9);
        request.bad_words = vec![vec![5]];
        request.sampling.presence_penalty = 1.0;
        let state = state(&mut request, &[4]);
        assert_eq!(state.bans(1), "bad_words, penalties");
        assert_eq!(state.next_draw(3).masked, [5]);
    }

    #[test]
    fn prompt_rows_are_needed_until_their_log_probabilities_are_known() {
        let mut request = Request::new(1, vec![1, 2], 9);
        request.prompt_logprobs = Some(0);
        let mut state = state(&mut request, &[]);
        assert_eq!(
            (state.num_prompt_rows(1, 2), state.num_prompt_rows(9, 2)),
            (1, 1)
        );
        let known = TokenLogprobs {
            token: 2,
            logprob: -1.0,
            top: Vec::new(),
        };
        state.push_prompt_logprobs(known.clone());
        assert_eq!(state.num_prompt_rows(9, 2), 0);
        assert_eq!(state.take_prompt_logprobs(), Some(vec![None, Some(known)]));
        assert_eq!(state.take_prompt_logprobs(), None);
        request.prompt_logprobs = Some(0);
        let resumed = self::state(&mut request, &[4]);
        assert_eq!(resumed.num_prompt_rows(9, 2), 0);
    }
}
