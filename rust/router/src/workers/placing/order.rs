//! Choices that need a worker, and why none takes them.

use std::time::Duration;

use super::prefix::Prefix;

/// Why no worker takes a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// No such model; these are served.
    Unknown(Vec<String>),
    /// The model must be named: these are served.
    Ambiguous(Vec<String>),
    /// A worker will probably come soon.
    Coming,
    /// No worker, and no sign of one.
    NoWorker,
    /// The tenant has as many choices in flight as it may have beside others: a `share` of the
    /// model's `limit`, or all of it.
    Full {
        own: usize,
        share: usize,
        limit: usize,
        retry_after: Duration,
    },
}

/// Choices that need a worker.
#[derive(Debug)]
pub(crate) struct Order<'a> {
    pub(crate) model: &'a str,
    /// Whose share of the workers they take.
    pub(crate) tenant: &'a str,
    pub(crate) num_choices: usize,
    /// Prompt and answer of one choice, in tokens.
    pub(crate) needs_context: u32,
    /// Of a `prompt_cache_key`: equal ones prefer the same worker.
    pub(crate) cache_key: Option<&'a str>,
    pub(crate) prefix: &'a Prefix,
}
