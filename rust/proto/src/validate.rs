//! Checks of a request that need no model: every limit written in the proto file.
//!
//! All violations of a request are gathered, each with the field, what was given and what is
//! allowed. Checks against the served model (vocabulary, context) take its size as an argument.

mod checker;
mod sampling;
mod structured;

use std::fmt;

use crate::v1;
use checker::{Checker, check_ids, refuse_id};
use sampling::{check_output, check_sampling};
use structured::check_structured;

/// Most completions of one request.
pub const MAX_CHOICES: u32 = 8;
/// Most stop texts of one request.
pub const MAX_STOP_TEXTS: usize = 16;
/// Longest stop text, in bytes.
pub const MAX_STOP_TEXT_BYTES: usize = 256;
/// Most further stop tokens of one request.
pub const MAX_STOP_TOKEN_IDS: usize = 64;
/// Most biased tokens of one request.
pub const MAX_LOGIT_BIAS_ENTRIES: usize = 1024;
/// Most chat messages of one request.
pub const MAX_MESSAGES: usize = 2048;
/// Longest request id and namespace, in bytes.
pub const MAX_NAME_BYTES: usize = 128;
/// Most barred texts of one request.
pub const MAX_BAD_WORDS: usize = 64;
/// Longest barred text, in bytes.
pub const MAX_BAD_WORD_BYTES: usize = 128;
/// Longest token sequence of a barred text.
pub const MAX_BAD_WORD_TOKENS: usize = 32;
/// Most of the likeliest tokens reported with one token.
pub const MAX_LOGPROBS: u32 = 20;
/// Longest schema, regular expression or grammar, and all texts of a choice together, in bytes.
pub const MAX_STRUCTURED_BYTES: usize = 65_536;
/// Most texts that an answer may be chosen from.
pub const MAX_STRUCTURED_CHOICES: usize = 1024;
/// Most draft nodes per step that a request may ask for.
pub const MAX_DRAFT_TOKENS: u32 = 63;

/// One field that breaks its limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Path of the field as the proto file names it, such as `sampling.top_p` or `stopping.stop[2]`.
    pub field: String,
    /// What was given and what is allowed, lower case.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.field, self.message)
    }
}

/// Violations of `request` that can be seen without the model; empty when there are none.
pub fn check_request(request: &v1::GenerateRequest) -> Vec<Violation> {
    let mut checker = Checker::default();
    if let Some(id) = &request.request_id {
        check_name(&mut checker, "request_id", id);
    }
    if let Some(namespace) = &request.namespace {
        check_name(&mut checker, "namespace", namespace);
    }
    check_prompt(&mut checker, request.prompt.as_ref());
    check_sampling(&mut checker, &request.sampling.clone().unwrap_or_default());
    check_stopping(&mut checker, &request.stopping.clone().unwrap_or_default());
    if let Some(output) = &request.output {
        check_output(&mut checker, output);
    }
    if let Some(structured) = &request.structured {
        check_structured(&mut checker, structured);
    }
    if let Some(speculation) = &request.speculation {
        check_speculation(&mut checker, speculation);
    }
    checker.violations
}

/// Violations of `prompt`, as [`check_request`] finds them, with fields below `chat`.
pub fn check_chat(chat: Option<&v1::ChatPrompt>) -> Vec<Violation> {
    let mut checker = Checker::default();
    match chat {
        Some(chat) => check_chat_prompt(&mut checker, chat),
        None => checker.refuse("chat", "absent, at least one message is needed"),
    }
    checker.violations
}

/// Violations of token ids at or above `vocabulary_size`, at most one per list.
pub fn check_token_ids(request: &v1::GenerateRequest, vocabulary_size: u32) -> Vec<Violation> {
    let mut checker = Checker::default();
    if let Some(v1::generate_request::Prompt::TokenIds(prompt)) = &request.prompt {
        check_ids(&mut checker, "token_ids.ids", &prompt.ids, vocabulary_size);
    }
    if let Some(stopping) = &request.stopping {
        let field = "stopping.stop_token_ids";
        check_ids(
            &mut checker,
            field,
            &stopping.stop_token_ids,
            vocabulary_size,
        );
    }
    if let Some(sampling) = &request.sampling
        && let Some((id, _)) = sampling.logit_bias.range(vocabulary_size..).next()
    {
        refuse_id(
            &mut checker,
            "sampling.logit_bias".into(),
            *id,
            vocabulary_size,
        );
    }
    if let Some(v1::prediction::Content::TokenIds(prediction)) = prediction_content(request) {
        let field = "speculation.prediction.token_ids.ids";
        check_ids(&mut checker, field, &prediction.ids, vocabulary_size);
    }
    checker.violations
}

/// Violations of a bare list of token ids, named `field`.
pub fn check_id_list(field: &str, ids: &[u32], vocabulary_size: u32) -> Vec<Violation> {
    let mut checker = Checker::default();
    check_ids(&mut checker, field, ids, vocabulary_size);
    checker.violations
}

/// Content of the request's prediction, when it has one.
pub fn prediction_content(request: &v1::GenerateRequest) -> Option<&v1::prediction::Content> {
    request
        .speculation
        .as_ref()?
        .prediction
        .as_ref()?
        .content
        .as_ref()
}

fn check_name(checker: &mut Checker, field: &str, name: &str) {
    checker.check((1..=MAX_NAME_BYTES).contains(&name.len()), field, || {
        format!("given {} bytes, allowed 1 to {MAX_NAME_BYTES}", name.len())
    });
    checker.check(
        name.bytes().all(|byte| byte.is_ascii_graphic()),
        field,
        || "given characters that are not printable ascii, allowed ! to ~".into(),
    );
}

fn check_prompt(checker: &mut Checker, prompt: Option<&v1::generate_request::Prompt>) {
    use v1::generate_request::Prompt;
    match prompt {
        None => checker.refuse(
            "prompt",
            "absent, one of text, token_ids and chat is needed",
        ),
        Some(Prompt::Text(text)) => {
            checker.check(!text.is_empty(), "text", || {
                "given no text, allowed 1 byte or more".into()
            });
        }
        Some(Prompt::TokenIds(prompt)) => {
            checker.check(!prompt.ids.is_empty(), "token_ids.ids", || {
                "given 0 ids, allowed 1 or more".into()
            });
        }
        Some(Prompt::Chat(chat)) => check_chat_prompt(checker, chat),
    }
}

fn check_chat_prompt(checker: &mut Checker, chat: &v1::ChatPrompt) {
    let count = chat.messages.len();
    checker.check((1..=MAX_MESSAGES).contains(&count), "chat.messages", || {
        format!("given {count} messages, allowed 1 to {MAX_MESSAGES}")
    });
    for (index, message) in chat.messages.iter().enumerate() {
        if message.role.is_empty() || message.role.len() > MAX_NAME_BYTES {
            checker.refuse(
                format!("chat.messages[{index}].role"),
                format!(
                    "given {} bytes, allowed 1 to {MAX_NAME_BYTES}",
                    message.role.len()
                ),
            );
        }
    }
}

fn check_stopping(checker: &mut Checker, stopping: &v1::Stopping) {
    if let Some(max_tokens) = stopping.max_tokens {
        checker.check(max_tokens >= 1, "stopping.max_tokens", || {
            "given 0, allowed 1 or more".into()
        });
        let min_tokens = stopping.min_tokens.unwrap_or(0);
        checker.check(min_tokens <= max_tokens, "stopping.min_tokens", || {
            format!("given {min_tokens}, allowed up to max_tokens ({max_tokens})")
        });
    }
    let count = stopping.stop.len();
    checker.check(count <= MAX_STOP_TEXTS, "stopping.stop", || {
        format!("given {count} texts, allowed up to {MAX_STOP_TEXTS}")
    });
    for (index, text) in stopping.stop.iter().take(MAX_STOP_TEXTS).enumerate() {
        if !(1..=MAX_STOP_TEXT_BYTES).contains(&text.len()) {
            checker.refuse(
                format!("stopping.stop[{index}]"),
                format!(
                    "given {} bytes, allowed 1 to {MAX_STOP_TEXT_BYTES}",
                    text.len()
                ),
            );
        }
    }
    let count = stopping.stop_token_ids.len();
    checker.check(
        count <= MAX_STOP_TOKEN_IDS,
        "stopping.stop_token_ids",
        || format!("given {count} ids, allowed up to {MAX_STOP_TOKEN_IDS}"),
    );
}

fn check_speculation(checker: &mut Checker, speculation: &v1::Speculation) {
    if let Some(nodes) = speculation.max_draft_tokens {
        checker.check(
            nodes <= MAX_DRAFT_TOKENS,
            "speculation.max_draft_tokens",
            || format!("given {nodes}, allowed 0 to {MAX_DRAFT_TOKENS}"),
        );
    }
    let mode = speculation.mode;
    checker.check(
        v1::SpeculationMode::try_from(mode).is_ok(),
        "speculation.mode",
        || {
            format!(
                "given {mode}, allowed 0 (the server's), 1 (auto), 2 (off), 3 (bfs), 4 (prob) or 5 (tiers)"
            )
        },
    );
    if let Some(prediction) = &speculation.prediction {
        checker.check(
            prediction.content.is_some(),
            "speculation.prediction",
            || "given no content, one of text and token_ids is needed".into(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> v1::GenerateRequest {
        v1::GenerateRequest {
            prompt: Some(v1::generate_request::Prompt::Text("hello".into())),
            ..Default::default()
        }
    }

    fn fields(violations: &[Violation]) -> Vec<&str> {
        violations
            .iter()
            .map(|violation| violation.field.as_str())
            .collect()
    }

    #[test]
    fn request_with_a_prompt_alone_is_allowed() {
        assert_eq!(check_request(&request()), []);
    }

    #[test]
    fn all_violations_are_gathered() {
        let mut bad = request();
        bad.sampling = Some(v1::Sampling {
            temperature: Some(f32::NAN),
            top_p: Some(0.0),
            n: Some(9),
            ..Default::default()
        });
        bad.stopping = Some(v1::Stopping {
            max_tokens: Some(0),
            ..Default::default()
        });
        let violations = check_request(&bad);
        assert_eq!(
            fields(&violations),
            [
                "sampling.temperature",
                "sampling.top_p",
                "sampling.n",
                "stopping.max_tokens"
            ]
        );
        assert_eq!(violations[2].message, "given 9, allowed 1 to 8");
    }

    #[test]
    fn token_ids_are_checked_against_the_vocabulary() {
        let mut bad = request();
        bad.prompt = Some(v1::generate_request::Prompt::TokenIds(v1::TokenIds {
            ids: vec![0, 9, 10],
        }));
        bad.stopping = Some(v1::Stopping {
            stop_token_ids: vec![u32::MAX],
            ..Default::default()
        });
        let violations = check_token_ids(&bad, 10);
        assert_eq!(
            fields(&violations),
            ["token_ids.ids[2]", "stopping.stop_token_ids[0]"]
        );
        assert_eq!(violations[0].message, "given token id 10, allowed 0 to 9");
    }

    #[test]
    fn names_are_printable_and_bounded() {
        let mut bad = request();
        bad.request_id = Some("a b".into());
        bad.namespace = Some("x".repeat(MAX_NAME_BYTES + 1));
        assert_eq!(fields(&check_request(&bad)), ["request_id", "namespace"]);
    }

    #[test]
    fn prediction_needs_content_and_mode_a_known_number() {
        let mut bad = request();
        bad.speculation = Some(v1::Speculation {
            mode: 7,
            max_draft_tokens: Some(64),
            prediction: Some(v1::Prediction { content: None }),
            ..Default::default()
        });
        assert_eq!(
            fields(&check_request(&bad)),
            [
                "speculation.max_draft_tokens",
                "speculation.mode",
                "speculation.prediction"
            ]
        );
    }
}
