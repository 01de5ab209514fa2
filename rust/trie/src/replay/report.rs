//! What a replay found.

use spectrie_types::Source;

/// Drafted tokens of similar probability, given the tokens before them: what was promised and
/// what came.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bin {
    /// Nodes whose parent the output had reached.
    pub trials: u64,
    /// Sum of their probabilities: how many should have come.
    pub expected: f64,
    /// How many came.
    pub actual: u64,
}

/// Counts, rates and times of everything replayed so far. Rates of nothing are `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayReport {
    /// Requests replayed.
    pub requests: u64,
    /// Tokens of their outputs.
    pub output_tokens: u64,
    /// Forwards of the model: each gave the accepted tokens and one more, the last one of a
    /// request maybe none more.
    pub steps: u64,
    /// Draft nodes offered.
    pub drafted_tokens: u64,
    /// Drafted tokens that were the output's.
    pub accepted_tokens: u64,
    /// `accepted_tokens / steps`.
    pub accepted_per_step: Option<f64>,
    /// `output_tokens / steps`.
    pub tokens_per_step: Option<f64>,
    /// `drafted_tokens / steps`.
    pub drafted_per_step: Option<f64>,
    /// `accepted_tokens / drafted_tokens`.
    pub accepted_per_drafted: Option<f64>,
    /// Microseconds to draft one tree, median.
    pub draft_us_p50: Option<f64>,
    /// The same, 99th percentile.
    pub draft_us_p99: Option<f64>,
    /// Microseconds to take a step's tokens in and learn from them, median.
    pub update_us_p50: Option<f64>,
    /// Tokens a second that shared memory took in, one thread; `None` when nothing was inserted.
    pub insert_tokens_per_second: Option<f64>,
    /// `memory_bytes / memory_tokens`.
    pub bytes_per_token: Option<f64>,
    /// Bytes of shared memory and of the corpora at the end.
    pub memory_bytes: u64,
    /// Tokens in them.
    pub memory_tokens: u64,
    /// Tokens that shared memory forgot to make room for others.
    pub evicted_tokens: u64,
    /// By probability given the tokens before: 0 to 0.1, 0.1 to 0.2, and so on.
    pub calibration: [Bin; 10],
    /// All bins together.
    pub calibration_overall: Bin,
    /// Accepted tokens by source: index = source number - 1.
    pub accepted_by_source: [u64; Source::ALL.len()],
    /// Steps by the number of nodes they drafted: index = nodes.
    pub steps_by_drafted: Vec<u64>,
}
