//! From the core's events to OpenAI's answers, whole or as server-sent events.

pub(super) mod events;
mod form;
#[cfg(test)]
mod fuzz;
pub(super) mod logprobs;
mod place;
pub(super) mod response;
mod resume;
pub(super) mod sse;
pub(super) mod stream;
pub(crate) mod usage;
