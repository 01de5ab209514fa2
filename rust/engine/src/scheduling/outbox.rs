//! What goes to the callers.

use crate::output::{Load, RequestOutput};

/// Counts the tokens that callers are given, and keeps the ends that no step produced until the next
/// call that gives outputs: refusals, cancellations, deadlines.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    ends: Vec<RequestOutput>,
    prompt_tokens: u64,
    generated_tokens: u64,
}

impl Outbox {
    /// Keeps an end that no step produced.
    pub(crate) fn push(&mut self, end: RequestOutput) {
        self.ends.push(end);
    }

    /// The ends that no step produced since the last call.
    pub(crate) fn take(&mut self) -> Vec<RequestOutput> {
        std::mem::take(&mut self.ends)
    }

    /// Counts a prompt that was computed.
    pub(crate) fn count_prompt(&mut self, num_tokens: usize) {
        self.prompt_tokens += num_tokens as u64;
    }

    /// Counts tokens that a step emitted.
    pub(crate) fn count_generated(&mut self, num_tokens: usize) {
        self.generated_tokens += num_tokens as u64;
    }

    /// Tokens emitted since the start.
    pub(crate) fn generated_tokens(&self) -> u64 {
        self.generated_tokens
    }

    /// Writes its figures into `load`.
    pub(crate) fn report(&self, load: &mut Load) {
        load.prompt_tokens = self.prompt_tokens;
        load.generated_tokens = self.generated_tokens;
    }
}
