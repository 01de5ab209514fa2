//! From the core's events to OpenAI's answers, whole or as server-sent events.

pub(super) mod events;
pub(super) mod logprobs;
pub(super) mod response;
pub(super) mod sse;
mod usage;
