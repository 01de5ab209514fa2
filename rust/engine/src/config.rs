//! What an engine is built with.

use spectrie_trie::MemoryConfig;
use spectrie_types::limits::MAX_DRAFT_TOKENS;
use spectrie_types::sizes::PAGE_SIZE;
use spectrie_types::{Recycle, SpeculationMode};

use crate::error::EngineError;
use crate::speculation::drafting::draft_config;

/// What an engine is built with; see [`EngineConfig::new`] for the defaults.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Token ids are below this.
    pub vocabulary_size: usize,
    /// Tokens that end an answer unless a request ignores them.
    pub eos_token_ids: Vec<u32>,
    /// Pages of the cache.
    pub num_pages: usize,
    /// Slots of a page.
    pub page_size: usize,
    /// Longest prompt plus answer, in tokens.
    pub max_context: usize,
    /// Most requests that hold pages at once.
    pub max_running: usize,
    /// Most requests held, running and waiting; more are refused by `submit`.
    pub max_held: usize,
    /// Most prompt tokens computed in one step, over all requests.
    pub chunk_tokens: usize,
    /// Most rows of one step.
    pub max_batch_rows: usize,
    /// Milliseconds that a step may take where prompts are computed beside running answers: their
    /// share of the step shrinks, by the measured costs, to one page at least.
    pub max_step_ms: f64,
    /// Seconds of waiting that make up for one level of priority.
    pub age_s: f64,
    /// Tokens that each running request is expected to grow by before others end: a request is let
    /// in while there is room for those.
    pub lookahead_tokens: usize,
    /// How draft trees are grown when a request does not say.
    pub speculation: SpeculationMode,
    /// Most draft nodes of one request and step.
    pub max_draft_tokens: usize,
    /// Shortest match a draft may rest on, in tokens (fixed modes).
    pub min_match: usize,
    /// Longest match looked for, in tokens (fixed modes).
    pub max_match: usize,
    /// Fewest children of a node (fixed modes).
    pub min_breadth: usize,
    /// Most children of a node (fixed modes).
    pub max_breadth: usize,
    /// Deepest draft node.
    pub max_depth: usize,
    /// Bytes of shared draft memory; 0 keeps none.
    pub memory_bytes: usize,
    /// Fingerprint of the model's tokenizer; corpora and snapshots of others are refused. `None`
    /// takes any corpus.
    pub tokenizer_fingerprint: Option<String>,
    /// Which rows' likeliest tokens the drafters are told.
    pub recycle: Recycle,
    /// One step in this many runs without drafts, so that their net gain can be measured; 0 = none
    /// does.
    pub holdout_every: u64,
    /// Which steps those are.
    pub holdout_seed: u64,
    /// Whether a thread does what the next plan does not need, and takes requests in, while a
    /// forward runs.
    pub overlap: bool,
}

impl EngineConfig {
    /// The defaults, for a vocabulary and a cache.
    pub fn new(
        vocabulary_size: usize,
        num_pages: usize,
        max_context: usize,
        max_running: usize,
    ) -> Self {
        Self {
            vocabulary_size,
            eos_token_ids: Vec::new(),
            num_pages,
            page_size: PAGE_SIZE,
            max_context,
            max_running,
            max_held: 4096,
            chunk_tokens: 256,
            max_batch_rows: 512,
            max_step_ms: 200.0,
            age_s: 10.0,
            lookahead_tokens: 64,
            speculation: SpeculationMode::Auto,
            max_draft_tokens: 16,
            min_match: 1,
            max_match: 16,
            min_breadth: 1,
            max_breadth: 10,
            max_depth: 18,
            memory_bytes: 256 << 20,
            tokenizer_fingerprint: None,
            recycle: Recycle::Decode,
            holdout_every: 100,
            holdout_seed: 0,
            overlap: false,
        }
    }

    /// The bounds of the draft memory.
    pub(crate) fn memory_config(&self) -> MemoryConfig {
        MemoryConfig {
            capacity_bytes: self.memory_bytes,
            ..MemoryConfig::default()
        }
    }

    /// Checks every value.
    ///
    /// # Errors
    /// [`EngineError::Config`] or [`EngineError::Drafting`], naming the first value out of range.
    pub fn check(&self) -> Result<(), EngineError> {
        let int = i32::MAX as usize;
        between("vocabulary_size", self.vocabulary_size, 1, int)?;
        between("page_size", self.page_size, 1, 1 << 16)?;
        between("num_pages", self.num_pages, 1, int / self.page_size)?;
        between("max_context", self.max_context, 1, int)?;
        between("max_batch_rows", self.max_batch_rows, 1, int)?;
        between("max_running", self.max_running, 1, self.max_batch_rows)?;
        between("max_held", self.max_held, self.max_running, int)?;
        between("chunk_tokens", self.chunk_tokens, 1, int)?;
        between("lookahead_tokens", self.lookahead_tokens, 0, int)?;
        above_zero("max_step_ms", self.max_step_ms)?;
        above_zero("age_s", self.age_s)?;
        between(
            "max_draft_tokens",
            self.max_draft_tokens,
            0,
            MAX_DRAFT_TOKENS,
        )?;
        draft_config(self, self.speculation).validate()?;
        self.memory_config().validate()?;
        match self
            .eos_token_ids
            .iter()
            .find(|&&token| token as usize >= self.vocabulary_size)
        {
            Some(token) => Err(EngineError::Config {
                name: "eos_token_ids",
                given: token.to_string(),
                allowed: format!("ids below the vocabulary size {}", self.vocabulary_size),
            }),
            None => Ok(()),
        }
    }
}

fn between(name: &'static str, given: usize, low: usize, high: usize) -> Result<(), EngineError> {
    if (low..=high).contains(&given) {
        return Ok(());
    }
    Err(EngineError::Config {
        name,
        given: given.to_string(),
        allowed: format!("{low} to {high}"),
    })
}

fn above_zero(name: &'static str, given: f64) -> Result<(), EngineError> {
    if given.is_finite() && given > 0.0 {
        return Ok(());
    }
    Err(EngineError::Config {
        name,
        given: given.to_string(),
        allowed: "a finite number above 0".into(),
    })
}
