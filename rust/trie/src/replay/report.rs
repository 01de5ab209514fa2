//! The report of a replay.

use spectrie_types::Source;

/// Drafted tokens of similar probability, given the tokens before them: expected and actual
/// acceptance.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bin {
    /// Number of nodes whose parent was accepted.
    pub trials: u64,
    /// Expected number of accepted nodes: the sum of their probabilities.
    pub expected: f64,
    /// Actual number of accepted nodes.
    pub actual: u64,
}

/// Counts, rates and times of everything replayed so far. A rate without data is `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayReport {
    /// Number of requests.
    pub requests: u64,
    /// Number of output tokens.
    pub output_tokens: u64,
    /// Number of forwards. Each emitted the accepted tokens and one more, except perhaps the last
    /// of a request.
    pub steps: u64,
    /// Number of draft nodes.
    pub drafted_tokens: u64,
    /// Number of draft nodes that the output accepted.
    pub accepted_tokens: u64,
    /// `accepted_tokens / steps`.
    pub accepted_per_step: Option<f64>,
    /// `output_tokens / steps`.
    pub tokens_per_step: Option<f64>,
    /// `drafted_tokens / steps`.
    pub drafted_per_step: Option<f64>,
    /// `accepted_tokens / drafted_tokens`.
    pub accepted_per_drafted: Option<f64>,
    /// Levels that a head was asked for.
    pub head_levels: u64,
    /// Nodes that it was asked about, those off the recorded path included.
    pub head_rows: u64,
    /// Nodes whose answers were recorded: one of a level at most.
    pub head_answers: u64,
    /// Time to draft one tree in microseconds, with all levels, median.
    pub draft_us_p50: Option<f64>,
    /// Time to draft one tree in microseconds, 99th percentile.
    pub draft_us_p99: Option<f64>,
    /// Time to record a step's tokens and learn from them in microseconds, median.
    pub update_us_p50: Option<f64>,
    /// Tokens inserted into shared memory per second by one thread; `None` if none was.
    pub insert_tokens_per_second: Option<f64>,
    /// `memory_bytes / memory_tokens`.
    pub bytes_per_token: Option<f64>,
    /// Bytes of shared memory and of the corpora, now.
    pub memory_bytes: u64,
    /// Tokens of shared memory and of the corpora, now.
    pub memory_tokens: u64,
    /// Number of tokens evicted from shared memory.
    pub evicted_tokens: u64,
    /// Acceptance by probability given the tokens before: 0 to 0.1, 0.1 to 0.2, and so on.
    pub calibration: [Bin; 10],
    /// Acceptance of all bins together.
    pub calibration_overall: Bin,
    /// Accepted tokens by source: index = source number - 1.
    pub accepted_by_source: [u64; Source::ALL.len()],
    /// Steps by the number of nodes they drafted: index = nodes.
    pub steps_by_drafted: Vec<u64>,
}
