//! What a caller asks for, and why a request may be refused.

use std::fmt;

use spectrie_sampling::{Grammar, SamplingParameters};
use spectrie_types::SpeculationMode;
use spectrie_types::limits::{MAX_BAD_WORD_IDS, MAX_BAD_WORDS, MAX_DRAFT_TOKENS, MAX_TOP_LOGPROBS};
use spectrie_types::options::EngineConfig;

/// Finds the stop texts of one answer in its tokens, which are all that an engine knows.
pub trait StopFinder: fmt::Debug + Send + Sync {
    /// Takes the next output tokens. Once a stop text has ended the answer, it gives how many of all
    /// the tokens it took belong to the answer.
    fn push(&mut self, tokens: &[u32]) -> Option<usize>;

    /// How many of the tokens it took belong to the answer, whatever follows: what comes behind them may
    /// lie behind a stop text that is not known yet.
    fn num_certain(&self) -> usize;

    /// Another one that took the same tokens.
    fn boxed_clone(&self) -> Box<dyn StopFinder>;
}

impl Clone for Box<dyn StopFinder> {
    fn clone(&self) -> Self {
        self.boxed_clone()
    }
}

/// One choice of a request, begun or resumed.
#[derive(Debug, Clone)]
pub struct Request {
    /// The caller's name for it; unique among requests that have not ended.
    pub handle: u64,
    /// Token ids to continue; at least one.
    pub prompt_ids: Vec<u32>,
    /// Tokens an earlier attempt already emitted; they count as output.
    pub emitted_token_ids: Vec<u32>,
    /// Text the answer will probably resemble.
    pub prediction_ids: Vec<u32>,
    /// Draft memory to draft from and to insert text in.
    pub namespace: String,
    /// Whether the draft memory may keep this request's tokens.
    pub learn: bool,
    /// How tokens are drawn.
    pub sampling: SamplingParameters,
    /// Sequences of tokens that the output may not contain, each of 1 to [`MAX_BAD_WORD_IDS`] ids.
    pub bad_words: Vec<Vec<u32>>,
    /// Alternatives to report with the log-probability of each output token, at most
    /// [`MAX_TOP_LOGPROBS`]; `None` reports no log-probabilities.
    pub logprobs: Option<u32>,
    /// The same for the tokens of the prompt but the first. A request with `emitted_token_ids` gets
    /// none: the attempt that emitted the first of them reported it.
    pub prompt_logprobs: Option<u32>,
    /// Seed of the noise of this choice; see [`spectrie_types::seed::choice_seed`].
    pub choice_seed: u64,
    /// Most output tokens, those already emitted included.
    pub max_tokens: u32,
    /// Ending tokens are masked before this many output tokens.
    pub min_tokens: u32,
    /// Further tokens that end the answer.
    pub stop_token_ids: Vec<u32>,
    /// Whether to go on after an end-of-sequence token.
    pub ignore_eos: bool,
    /// When to give up, on the clock of `plan`; `None` = never.
    pub deadline_s: Option<f64>,
    /// Larger runs first among the requests of a tenant; −100 to 100, what is beyond counts as that.
    pub priority: i32,
    /// Whose fair share it takes; `None` = its namespace's, that of `a` where it is `a/b`.
    pub tenant: Option<String>,
    /// How draft trees are grown; `None` = as the engine is set.
    pub speculation: Option<SpeculationMode>,
    /// Most draft nodes per step; `None` = as the engine is set.
    pub max_draft_tokens: Option<u32>,
    /// What the output must be a text of, the prompt not included; `None` = anything.
    ///
    /// The answer ends as [`FinishKind::Complete`](spectrie_types::FinishKind::Complete) with the token after
    /// which nothing but its end may follow, or nothing that other options do not ban, even before
    /// `min_tokens`. Before that an end-of-sequence token may end it exactly where the grammar
    /// accepts it, never with `ignore_eos`. `max_tokens` and `stop_token_ids` may end it anywhere.
    pub grammar: Option<Grammar>,
    /// Finds the stop texts, from the first output token on; `None` = there are none.
    ///
    /// The answer ends as [`FinishKind::Complete`](spectrie_types::FinishKind::Complete) with the token that
    /// shows a stop text; what follows its last token is never sampled, learnt or kept.
    pub stops: Option<Box<dyn StopFinder>>,
}

impl Request {
    /// A request with every option at its default.
    pub fn new(handle: u64, prompt_ids: Vec<u32>, max_tokens: u32) -> Self {
        Self {
            handle,
            prompt_ids,
            emitted_token_ids: Vec::new(),
            prediction_ids: Vec::new(),
            namespace: "default".into(),
            learn: true,
            sampling: SamplingParameters::default(),
            bad_words: Vec::new(),
            logprobs: None,
            prompt_logprobs: None,
            choice_seed: 0,
            max_tokens,
            min_tokens: 0,
            stop_token_ids: Vec::new(),
            ignore_eos: false,
            deadline_s: None,
            priority: 0,
            tenant: None,
            speculation: None,
            max_draft_tokens: None,
            grammar: None,
            stops: None,
        }
    }

    /// Bytes of its token ids.
    pub(crate) fn id_bytes(&self) -> usize {
        let ids = [
            &self.prompt_ids,
            &self.emitted_token_ids,
            &self.prediction_ids,
        ];
        ids.map(Vec::len).iter().sum::<usize>() * size_of::<u32>()
    }

    /// Why this request can never run, with the value given and the values allowed.
    pub(crate) fn refusal(&self, config: &EngineConfig) -> Option<String> {
        self.size_refusal(config)
            .or_else(|| self.token_refusal(config))
            .or_else(|| self.sampling_refusal())
            .or_else(|| self.list_refusal())
    }

    fn size_refusal(&self, config: &EngineConfig) -> Option<String> {
        let prompt = self.prompt_ids.len();
        let asked = prompt + self.max_tokens as usize;
        if prompt == 0 {
            return Some("the prompt is empty; at least 1 token is needed".into());
        }
        if asked > config.max_context {
            return Some(format!(
                "prompt of {prompt} tokens plus max_tokens of {} is {asked}, over the context of {} tokens",
                self.max_tokens, config.max_context
            ));
        }
        // The last token emitted is never computed, so it needs no slot.
        let slots = config.num_pages * config.page_size;
        if asked > slots + 1 {
            return Some(format!(
                "prompt of {prompt} tokens plus max_tokens of {} is {asked}, over the {slots} tokens the cache holds",
                self.max_tokens
            ));
        }
        match self.max_draft_tokens {
            Some(given) if given as usize > MAX_DRAFT_TOKENS => Some(format!(
                "max_draft_tokens is {given}; allowed: 0 to {MAX_DRAFT_TOKENS}"
            )),
            _ => None,
        }
    }

    fn token_refusal(&self, config: &EngineConfig) -> Option<String> {
        let biased: Vec<u32> = self
            .sampling
            .logit_bias
            .iter()
            .map(|&(token, _)| token)
            .collect();
        let banned = self.bad_words.concat();
        let lists: [(&str, &[u32]); 6] = [
            ("prompt", &self.prompt_ids),
            ("emitted_token_ids", &self.emitted_token_ids),
            ("prediction", &self.prediction_ids),
            ("stop_token_ids", &self.stop_token_ids),
            ("logit_bias", &biased),
            ("bad_words", &banned),
        ];
        lists.iter().find_map(|(name, tokens)| {
            let token = tokens
                .iter()
                .find(|&&token| token as usize >= config.vocabulary_size)?;
            Some(format!(
                "{name} holds token id {token}; allowed: 0 to {}",
                config.vocabulary_size - 1
            ))
        })
    }

    fn sampling_refusal(&self) -> Option<String> {
        let sampling = &self.sampling;
        if let Some(wrong) = sampling.violations().0.first() {
            return Some(wrong.to_string());
        }
        if let Some((token, bias)) = sampling
            .logit_bias
            .iter()
            .find(|(_, bias)| !bias.is_finite())
        {
            return Some(format!(
                "logit_bias of token {token} is {bias}; allowed: a finite number"
            ));
        }
        match self.deadline_s {
            Some(deadline) if deadline.is_nan() => Some("deadline_s is not a number".into()),
            _ => None,
        }
    }

    fn list_refusal(&self) -> Option<String> {
        for (name, given) in [
            ("logprobs", self.logprobs),
            ("prompt_logprobs", self.prompt_logprobs),
        ] {
            if let Some(given) = given.filter(|&given| given > MAX_TOP_LOGPROBS) {
                return Some(format!(
                    "{name} is {given}; allowed: 0 to {MAX_TOP_LOGPROBS}"
                ));
            }
        }
        let given = self.bad_words.len();
        if given > MAX_BAD_WORDS {
            return Some(format!(
                "bad_words holds {given} sequences; allowed: at most {MAX_BAD_WORDS}"
            ));
        }
        let wrong = self
            .bad_words
            .iter()
            .find(|word| word.is_empty() || word.len() > MAX_BAD_WORD_IDS)?;
        Some(format!(
            "bad_words holds a sequence of {} ids; allowed: 1 to {MAX_BAD_WORD_IDS}",
            wrong.len()
        ))
    }
}
