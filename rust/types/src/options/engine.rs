//! What an engine is built with.

use super::host::{CORPUS_MEMORY_BYTES, MEMORY_BYTES, WORKERS};
use super::kind::{Kind, Range, above, at_least, integer, number};
use super::macros::options;
use super::model::RUNNERS;
use super::row::{Group, OptionRow};
use crate::limits::{MAX_DRAFT_TOKENS, MAX_MATCH};
use crate::sizes::{PAGE_SIZE, TOP_K};
use crate::{Recycle, SpeculationMode};

/// The greatest number of pages, rows or tokens.
const MOST: u32 = i32::MAX as u32;
/// The deepest draft tree, and the most tokens in one.
const DEEPEST: u32 = MAX_DRAFT_TOKENS as u32;
/// The longest match, in tokens.
const LONGEST_MATCH: u32 = MAX_MATCH as u32;

/// A fact about the model or the machine.
const fn fact(kind: Kind) -> OptionRow {
    OptionRow::new(Group::Fact, kind)
}

/// An option of the scheduler.
const fn scheduling(kind: Kind) -> OptionRow {
    OptionRow::new(Group::Machine, kind)
}

/// An option of speculation.
const fn speculation(kind: Kind) -> OptionRow {
    OptionRow::new(Group::Speculation, kind)
}

/// An option that is set in code only.
const fn internal(kind: Kind) -> OptionRow {
    OptionRow::new(Group::Engine, kind)
}

options! {
    /// What an engine is built with; see [`EngineConfig::new`] for the defaults.
    pub struct EngineConfig;

    /// Number of token ids: each is below this.
    vocabulary_size: usize = 0 => fact(integer(1, MOST)).required();
    /// Tokens that end an answer unless a request ignores them.
    eos_token_ids: Vec<u32> = Vec::new() => fact(Kind::TokenIds).required();
    /// Pages of the cache.
    num_pages: usize = 0 => fact(integer(1, MOST)).required().unit("pages");
    /// Slots of a page.
    page_size: usize = PAGE_SIZE => fact(integer(1, 1 << 16)).unit("tokens");
    /// Maximum length of prompt plus answer.
    max_context: usize = 0 => fact(integer(1, MOST)).required().unit("tokens");
    /// Maximum requests that hold pages at once; at most `max_batch_rows`.
    max_running: usize = 0 => fact(integer(1, MOST)).required().unit("requests");
    /// Fingerprint of the model's tokenizer; corpora and snapshots of others are refused. `None`
    /// takes any corpus.
    tokenizer_fingerprint: Option<String> = None => fact(Kind::Text("HEX"));
    /// Whether a background thread does work that the next plan does not need, and admits requests,
    /// while a forward runs.
    overlap: bool = false => fact(Kind::Flag);
    /// Maximum threads that draft for different requests between two forwards, where there is enough to
    /// do. Results do not depend on it.
    draft_threads: usize = 1 => fact(integer(1, 64)).unit("threads");
    /// Maximum requests held, running and waiting; `submit` refuses more.
    max_held: usize = 4096 => internal(integer(1, MOST)).unit("requests");
    /// Maximum memory of prompts that wait, 4 bytes a token; further requests are refused. One
    /// request may always wait.
    waiting_bytes: usize = 256 << 20 => scheduling(Kind::Size).flag("waiting_memory", WORKERS);
    /// Maximum rows of one step.
    max_batch_rows: usize = 512 => fact(integer(1, MOST)).unit("rows");
    /// Tokens by which each running request is expected to grow before others end; a request is
    /// admitted while all have room for them.
    lookahead_tokens: usize = 64 => internal(integer(0, MOST)).unit("tokens");
    /// One step in this many drafts nothing, to measure the net gain of drafts; 0 = none.
    holdout_every: u64 = 100 => internal(at_least(0)).unit("steps");

    /// Maximum prompt tokens computed in one step, over all requests.
    chunk_tokens: usize = 256 => fact(integer(1, MOST)).unit("tokens");
    /// Maximum time of a step that computes prompts while other requests generate.
    ///
    /// The prompts' share of the step shrinks to keep it, by the measured costs, down to one page.
    max_step_ms: f64 = 200.0 => scheduling(above(0.0, f64::INFINITY))
        .flag("max_step_ms", WORKERS).flag_range(1.0, 60_000.0).unit("milliseconds");
    /// How many times as long tenants ahead of their share may make the steps of others, on average.
    ///
    /// Limits their long prompts, long contexts and drafts. More serves these sooner. Where those ahead are less
    /// than a sixth of all tenants, they may add less in proportion.
    max_slowdown: f64 = 1.2 => scheduling(above(1.0, f64::INFINITY))
        .flag("max_slowdown", WORKERS).flag_range(1.01, 1000.0);
    /// Waiting time that raises a request by one priority level among those of its tenant.
    age_s: f64 = 10.0 => scheduling(Kind::Duration(Range::above(0.0, f64::INFINITY)))
        .flag("priority_age", WORKERS);

    /// How draft trees are grown, unless a request says otherwise.
    ///
    /// `auto`: calibrated scores, and as many tokens as the measured cost of a step justifies;
    /// `off`: no drafts; `bfs` and `prob`: fixed trees, newest or likeliest continuation first;
    /// `tiers`: calibrated scores, and 0, 1, 3 or 7 tokens by how many were accepted lately;
    /// `eagle2` and `chain`: fixed trees of a drafter alone, EAGLE-2's or a chain.
    speculation: SpeculationMode = SpeculationMode::Auto
        => speculation(Kind::Choice(&SpeculationMode::NAMES)).flag("speculation", RUNNERS).keyword();
    /// Maximum draft tokens per request and step.
    max_draft_tokens: usize = 16 => speculation(integer(0, DEEPEST))
        .flag("max_draft_tokens", RUNNERS).unit("tokens").keyword();
    /// Assumed time of asking a request for drafts; measured if not set.
    ///
    /// With a set time, what is drafted does not depend on the clock, and drafting does not stop
    /// where it is measured to be slower than none. For replays and tests.
    drafting_cost_ms: Option<f64> = None => speculation(number(0.0, f64::INFINITY)).keyword()
        .flag("drafting_cost_ms", RUNNERS).shown("measured").unit("milliseconds");
    /// Draft memory of each worker; 0 keeps none.
    memory_bytes: usize = MEMORY_BYTES => speculation(Kind::Size)
        .flag("memory", WORKERS).keyword();
    /// Memory of each worker for corpora: what does not fit is read from disk again.
    corpus_memory_bytes: usize = CORPUS_MEMORY_BYTES => speculation(Kind::Size)
        .flag("corpus_memory", WORKERS).keyword();
    /// Maximum namespaces in draft memory; a new one replaces the one idle longest.
    max_namespaces: usize = 1024 => speculation(integer(1, MOST))
        .flag("max_namespaces", WORKERS).unit("namespaces");
    /// After which rows the model's runner-up tokens become drafts.
    ///
    /// `decode`: every sampled row; `all`: rows of prompts too, which makes prefill slower.
    recycle: Recycle = Recycle::Decode
        => speculation(Kind::Choice(&Recycle::NAMES)).flag("recycle", WORKERS);
    /// Minimum length of a match, in modes bfs and prob.
    min_match: usize = 1 => speculation(integer(1, LONGEST_MATCH))
        .flag("min_match", WORKERS).unit("tokens");
    /// Maximum length of a match, in modes bfs and prob.
    max_match: usize = 16 => speculation(integer(1, LONGEST_MATCH))
        .flag("max_match", WORKERS).unit("tokens");
    /// Minimum children of a draft node, in modes bfs and prob.
    min_breadth: usize = 1 => speculation(integer(1, DEEPEST))
        .flag("min_breadth", WORKERS).flag_range(1.0, 10.0);
    /// Maximum children of a draft node, in modes bfs and prob.
    max_breadth: usize = 10 => speculation(integer(1, DEEPEST))
        .flag("max_breadth", WORKERS).flag_range(1.0, 10.0);
    /// Levels that a drafter is asked in each step, in modes eagle2 and chain.
    head_steps: usize = 5 => speculation(integer(1, DEEPEST))
        .flag("head_steps", WORKERS).flag_range(1.0, 16.0).unit("levels");
    /// Nodes of a level that a drafter is asked about, and tokens taken of each answer, in mode eagle2.
    head_top_k: usize = 8 => speculation(integer(1, TOP_K as u32))
        .flag("head_top_k", WORKERS).unit("tokens");
    /// Maximum depth of a draft tree.
    max_depth: usize = 18 => speculation(integer(1, DEEPEST))
        .flag("max_depth", WORKERS).unit("tokens");
}

impl EngineConfig {
    /// The defaults, for a vocabulary and a cache.
    #[must_use]
    pub fn new(
        vocabulary_size: usize,
        num_pages: usize,
        max_context: usize,
        max_running: usize,
    ) -> Self {
        Self {
            vocabulary_size,
            num_pages,
            max_context,
            max_running,
            ..Self::defaults()
        }
    }
}
