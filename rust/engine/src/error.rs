//! The one error of this crate.

use std::path::PathBuf;

use spectrie_trie::TrieError;
use spectrie_types::options::Violations;
use thiserror::Error;

/// Why the engine refused a call. A bad *request* is no error: it ends with a refused output.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum EngineError {
    /// A configuration value is out of range.
    #[error("{name} is {given}; allowed: {allowed}")]
    Config {
        /// Name of the value.
        name: &'static str,
        /// What was given.
        given: String,
        /// What is allowed.
        allowed: String,
    },
    /// Options are unknown, missing, of a wrong type or out of range.
    #[error(transparent)]
    Options(#[from] Violations),
    /// A drafting or memory value is out of range.
    #[error(transparent)]
    Drafting(#[from] TrieError),
    /// A call about draft memory while speculation is off.
    #[error("speculation is off, so there is no draft memory; start with speculation auto")]
    SpeculationOff,
    /// A corpus of another tokenizer: its ids mean other text.
    #[error("{} was built with tokenizer {given}, the model's is {expected}; build it again with this model", .path.display())]
    ForeignCorpus {
        /// The corpus file.
        path: PathBuf,
        /// Fingerprint of its tokenizer.
        given: String,
        /// Fingerprint of the model's tokenizer.
        expected: String,
    },
    /// Too many requests or commands are already held.
    #[error("the engine already holds {limit} {what}, its limit")]
    Full {
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// The prompts that wait leave no room for another.
    #[error(
        "the request has {given} bytes of token ids and {waiting} bytes wait already; allowed: \
         {limit} bytes (--waiting-memory); send it again later, or start more workers or one with a \
         larger bound"
    )]
    NoWaitingRoom {
        /// Bytes of the request's token ids.
        given: usize,
        /// Bytes of those that wait.
        waiting: usize,
        /// The bound.
        limit: usize,
    },
    /// A request with this handle has not ended yet.
    #[error("handle {handle} belongs to a request that has not ended")]
    DuplicateHandle {
        /// The handle.
        handle: u64,
    },
    /// A plan was asked for before the last one was committed.
    #[error("plan {plan_id} is not committed yet; commit or fail it first")]
    PlanInFlight {
        /// The plan that waits for its commit.
        plan_id: u64,
    },
    /// Answers of a drafter that was not asked.
    #[error("no level waits for answers; ask for a draft plan first")]
    NoLevel,
    /// A further level or a plan was asked for before the last level was answered.
    #[error("level {level} of the drafter is not answered yet; answer or fail it first")]
    LevelInFlight {
        /// The level that waits for its answers.
        level: u16,
    },
    /// A drafter was given after keys without it were computed.
    #[error("a drafter is set before the first step; start a new engine")]
    DrafterTooLate,
    /// The plan was committed before, or was never made.
    #[error("plan {given} cannot be committed; allowed: {}", .expected.map_or_else(|| "none, no plan is open".to_owned(), |id| format!("plan {id}")))]
    UnknownPlan {
        /// What was given.
        given: u64,
        /// The plan that waits, if any.
        expected: Option<u64>,
    },
    /// The logits do not fit the plan.
    #[error("{what} is {given}; allowed: {allowed}")]
    Logits {
        /// Which property.
        what: &'static str,
        /// What was given.
        given: usize,
        /// What is allowed.
        allowed: String,
    },
    /// Token ids were given for a request that needs its logits.
    #[error("request {handle} is not plain greedy: commit its logits")]
    NotGreedy {
        /// The request.
        handle: u64,
    },
    /// The memory given for a packed step is too short; nothing was written.
    #[error(
        "the packed step has {needed_words} words of 4 bytes; there is room for {capacity_words}"
    )]
    PackedTooLong {
        /// What it takes.
        needed_words: usize,
        /// What was given.
        capacity_words: usize,
    },
    /// An earlier call panicked and left the state undefined.
    #[error("the engine stopped after an internal failure; start a new one")]
    Stopped,
}
