//! What steps return.

use spectrie_sampling::TokenLogprobs;
use spectrie_types::sizes::MAX_DRAFTERS;
use spectrie_types::{FinishKind, Histogram, NUM_DROP_REASONS, NUM_SOURCES};

/// Counts and durations of one attempt at a choice.
///
/// `verify_steps + accepted_tokens` is the number of tokens this attempt emitted after its first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestStats {
    /// Forwards that emitted tokens, the first one not counted.
    pub verify_steps: u32,
    /// Draft nodes sent through the model.
    pub drafted_tokens: u32,
    /// Draft nodes that became output.
    pub accepted_tokens: u32,
    /// Accepted tokens by source number.
    pub accepted_by_source: [u32; NUM_SOURCES],
    /// From arrival to admission.
    pub queue_ns: u64,
    /// From admission to the first token.
    pub prefill_ns: u64,
    /// From the first token to the end.
    pub decode_ns: u64,
    /// Prompt tokens whose keys and values were already cached.
    pub cached_tokens: u32,
    /// Times the request lost its pages and was computed again.
    pub preemptions: u32,
    /// Output tokens (those of earlier attempts included) equal to the prediction's next token,
    /// drafted or not.
    pub accepted_prediction_tokens: u32,
}

/// The end of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finish {
    /// Why it ended.
    pub kind: FinishKind,
    /// The reason, for `Refused` and `Failed`.
    pub message: Option<String>,
    /// Output tokens that count, those of earlier attempts included; all when `None`.
    pub keep_tokens: Option<u32>,
    /// Counts and durations.
    pub stats: RequestStats,
}

/// What one step emitted for one request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RequestOutput {
    /// The request.
    pub handle: u64,
    /// New tokens, in order.
    pub token_ids: Vec<u32>,
    /// Source number of each new token: 1 for the model's own, else that of the accepted draft
    /// node.
    pub sources: Vec<u8>,
    /// Log-probabilities of each new token, if the request asks for them.
    pub logprobs: Option<Vec<TokenLogprobs>>,
    /// Log-probabilities of each prompt token but the first, if the request asks for them; reported
    /// once, with the first new token.
    pub prompt_logprobs: Option<Vec<Option<TokenLogprobs>>>,
    /// Set when the request ended.
    pub finish: Option<Finish>,
}

/// Bins of conditional probability, a tenth each.
pub const NUM_BINS: usize = 10;

/// Draft nodes of similar conditional probability whose parent was accepted.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CalibrationBin {
    /// Nodes.
    pub trials: u64,
    /// Sum of their probabilities given their parent.
    pub expected: f64,
    /// Those that were accepted.
    pub actual: u64,
}

/// Tokens per millisecond of the steps that may draft over those of the steps held out, drafting and
/// learning included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NetGain {
    /// The ratio: above 1 where drafts make answers faster.
    pub ratio: f64,
    /// The lower end of its 95 % interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// What a drafter of the runner's was asked, and what that gains.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DrafterLoad {
    /// Levels that it was asked.
    pub levels: u64,
    /// Rows of those levels.
    pub rows: u64,
    /// What asking it gains, over steps held out from that alone; `None` until enough were.
    pub gain: Option<NetGain>,
}

/// How busy the engine is. Counts of tokens, steps and preemptions are totals since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Load {
    /// Requests that hold pages.
    pub running: usize,
    /// Requests that wait.
    pub waiting: usize,
    /// Bytes of the token ids of requests that wait.
    pub waiting_bytes: usize,
    /// Pages that requests hold.
    pub pages_used: usize,
    /// Pages that no request holds, kept for the prefix they hold.
    pub pages_cached: usize,
    /// Pages of the cache.
    pub pages_total: usize,
    /// Bytes of draft memory.
    pub memory_bytes: usize,
    /// Plans committed.
    pub steps: u64,
    /// Draft nodes sent through the model.
    pub drafted_tokens: u64,
    /// Draft nodes that became output.
    pub accepted_tokens: u64,
    /// Prompt tokens of requests whose prompt was computed.
    pub prompt_tokens: u64,
    /// Tokens emitted.
    pub generated_tokens: u64,
    /// Requests that lost their pages.
    pub preemptions: u64,
    /// Prompt tokens that were looked up in the prefix cache, once for each request.
    pub prefix_query_tokens: u64,
    /// Those of them that were found there.
    pub prefix_hit_tokens: u64,
    /// Draft requests to drafters.
    pub draft_calls: u64,
    /// Seconds that these took between forwards, by the engine's clock.
    pub draft_seconds: f64,
    /// The same, each time that requests were asked.
    pub draft_times: Histogram,
    /// Seconds of each step, from the beginning of its plan to the end of its commit.
    pub step_times: Histogram,
    /// Seconds of the forward of each step that verified drafts.
    pub verify_times: Histogram,
    /// Draft nodes that a request sent in a step, where it sent any.
    pub tree_nodes: Histogram,
    /// Questions to draft memory for drafts.
    pub memory_lookups: u64,
    /// Those that its text answered.
    pub memory_hits: u64,
    /// Seconds that keeping drafters and draft memory up to date took between forwards: indexing,
    /// training, recycling, inserting, and waits for the background thread.
    pub learn_seconds: f64,
    /// Decode-only steps in mode auto whose decision, to draft or not, can be judged.
    pub choices_total: u64,
    /// Those whose decision was right by the evidence of their time. Drafting was right if such steps
    /// with as many requests emitted at least as many tokens per millisecond as steps without drafts.
    /// Not drafting was right if the likeliest drafts came true too seldom to pay for their rows.
    pub choices_right: u64,
    /// Bytes of the corpora, which are files in memory and not in `memory_bytes`.
    pub corpus_bytes: usize,
    /// Blocks of 64 KiB of the corpora that were found damaged or cut off.
    pub lost_corpus_blocks: u64,
    /// Tokens of text in draft memory.
    pub memory_tokens: u64,
    /// Tokens of text that were inserted in draft memory, those included that found no room.
    pub inserted_tokens: u64,
    /// Namespaces of draft memory.
    pub memory_namespaces: usize,
    /// Tokens that draft memory evicted to stay within its bytes.
    pub evicted_tokens: u64,
    /// Tokens that draft memory dropped or did not take, by [`DropReason`] number.
    ///
    /// [`DropReason`]: spectrie_types::DropReason
    pub dropped_tokens: [u64; NUM_DROP_REASONS],
    /// Bytes written to snapshots of draft memory.
    pub snapshot_written_bytes: u64,
    /// Sum of the values of the draft nodes sent in mode auto: what `accepted_tokens` should be.
    pub expected_accepted: f64,
    /// Draft nodes of mode auto that became output, by source number.
    pub accepted_by_source: [u64; NUM_SOURCES],
    /// Expected and actual acceptance of nodes in mode auto, by tenths of conditional probability.
    pub calibration: [CalibrationBin; NUM_BINS],
    /// Decode-only steps whose drafts the budget chose.
    pub offered_steps: u64,
    /// Tokens they emitted.
    pub offered_tokens: u64,
    /// Milliseconds they took, from the beginning of their plan to the end of their commit, and the
    /// upkeep of the steps held out. What is done beside the next forward counts there.
    pub step_ms_total: f64,
    /// Decode-only steps of plain decoding, to measure what drafts gain.
    pub holdout_steps: u64,
    /// Tokens they emitted.
    pub holdout_tokens: u64,
    /// Milliseconds they took, upkeep left out.
    pub holdout_ms_total: f64,
    /// What drafts gain; `None` until enough steps were held out.
    pub net_gain: Option<NetGain>,
    /// Levels that drafters of the runner's were asked.
    pub head_levels: u64,
    /// Rows that they were asked.
    pub head_rows: u64,
    /// What asking the first of them gains, over steps held out from that alone; `None` until enough were.
    pub head_gain: Option<NetGain>,
    /// The same of each, by their numbers, those that were given up too.
    pub drafters: [Option<DrafterLoad>; MAX_DRAFTERS],
    /// Milliseconds that the longest step may take, at the speed of the machine now: a whole chunk at
    /// the end of the context, beside rows of as many requests as may run, which read the whole cache.
    pub longest_step_ms: f64,
}
