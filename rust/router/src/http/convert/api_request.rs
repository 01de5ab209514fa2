//! A request of this API, converted.

use serde::{Deserialize, Serialize};
use spectrie_proto::v1;

use super::structured::STRUCTURED_OUTPUTS_SCHEMA;

/// Which of the two endpoints a request came through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) enum Endpoint {
    /// `/v1/chat/completions`
    Chat,
    /// `/v1/completions`
    Completions,
}

/// A request body, read and converted.
#[derive(Debug)]
pub(crate) struct ApiRequest {
    pub(crate) endpoint: Endpoint,
    /// A unique name that the client chose in the body.
    pub(crate) request_id: Option<String>,
    /// One per prompt, in the order given; at least one.
    pub(crate) requests: Vec<v1::GenerateRequest>,
    /// Completions of each prompt.
    pub(crate) choices_per_prompt: u32,
    /// Completions of all prompts together.
    pub(crate) num_choices: u32,
    /// Whether to answer with server-sent events.
    pub(crate) stream: bool,
    /// What the answer carries beside its text.
    pub(crate) extras: Extras,
    /// Fields without effect, for the `x-spectrie-ignored` header.
    pub(crate) ignored: Vec<String>,
    /// What this request calls the core's fields.
    pub(crate) names: Names,
}

/// What an answer carries beside its text.
#[derive(Debug, Clone, Copy, Default, Deserialize, Serialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one field of the body"
)]
pub(crate) struct Extras {
    /// Whether a stream ends with a chunk that carries the usage.
    pub(crate) include_usage: bool,
    /// Whether the answer carries token ids.
    pub(crate) return_token_ids: bool,
    /// Whether the answer carries log-probabilities.
    pub(crate) logprobs: bool,
    /// Whether special tokens are part of the text.
    pub(crate) shows_special: bool,
    /// Whether the client spoke of speculation, and so gets its figures in a stream too.
    pub(crate) report_speculation: bool,
}

/// What a request calls the fields that have more than one name, for errors from the core.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Names {
    pub(crate) max_tokens: &'static str,
    pub(crate) prompt: &'static str,
    /// How many alternatives to report with each token.
    pub(crate) logprobs: &'static str,
    /// The schema of the answer.
    pub(crate) schema: &'static str,
}

impl Default for Names {
    fn default() -> Self {
        Self {
            max_tokens: "max_tokens",
            prompt: "prompt",
            logprobs: "logprobs",
            schema: STRUCTURED_OUTPUTS_SCHEMA,
        }
    }
}
