//! The whole of a request: names, prompt, stops, speculation, and what other files check.

use spectrie_proto::v1;
use spectrie_types::limits::{
    MAX_CACHE_KEY_BYTES, MAX_DRAFT_TOKENS, MAX_MESSAGES, MAX_NAME_BYTES, MAX_STOP_TEXT_BYTES,
    MAX_STOP_TEXTS, MAX_STOP_TOKEN_IDS,
};

use super::checker::Checker;
use super::sampling::{check_output, check_sampling};
use super::structured::check_structured;
use super::token_ids::check_token_ids;
use crate::Violation;

/// The violations of `request` that can be seen without tokenizing, the first few where they are many; empty when
/// there are none.
///
/// Token ids are checked when the `vocabulary_size` is known.
pub fn check_request(
    request: &v1::GenerateRequest,
    vocabulary_size: Option<u32>,
) -> Vec<Violation> {
    let mut checker = Checker::default();
    if let Some(id) = &request.request_id {
        check_name(&mut checker, "request_id", id);
    }
    if let Some(namespace) = &request.namespace {
        check_name(&mut checker, "namespace", namespace);
    }
    for (field, key) in [
        ("cache_salt", &request.cache_salt),
        ("prompt_cache_key", &request.prompt_cache_key),
    ] {
        check_cache_key(&mut checker, field, key.as_deref());
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
    if let Some(vocabulary_size) = vocabulary_size {
        check_token_ids(&mut checker, request, vocabulary_size);
    }
    checker.into_violations()
}

/// Violations of `prompt`, as [`check_request`] finds them, with fields below `chat`.
pub fn check_chat(chat: Option<&v1::ChatPrompt>) -> Vec<Violation> {
    let mut checker = Checker::default();
    match chat {
        Some(chat) => check_chat_prompt(&mut checker, chat),
        None => checker.refuse("chat", "required, give at least one message"),
    }
    checker.into_violations()
}

fn check_name(checker: &mut Checker, field: &str, name: &str) {
    checker.check((1..=MAX_NAME_BYTES).contains(&name.len()), field, || {
        format!("given {} bytes; allowed: 1 to {MAX_NAME_BYTES}", name.len())
    });
    checker.check(
        name.bytes().all(|byte| byte.is_ascii_graphic()),
        field,
        || "given characters that are not printable ascii; allowed: ! to ~".into(),
    );
}

fn check_cache_key(checker: &mut Checker, field: &str, key: Option<&str>) {
    let length = key.map_or(1, str::len);
    checker.check((1..=MAX_CACHE_KEY_BYTES).contains(&length), field, || {
        format!("given {length} bytes; allowed: 1 to {MAX_CACHE_KEY_BYTES}")
    });
}

fn check_prompt(checker: &mut Checker, prompt: Option<&v1::generate_request::Prompt>) {
    use v1::generate_request::Prompt;
    match prompt {
        None => checker.refuse("prompt", "required, give one of text, token_ids and chat"),
        Some(Prompt::Text(text)) => {
            checker.check(!text.is_empty(), "text", || {
                "given no text; allowed: 1 byte or more".into()
            });
        }
        Some(Prompt::TokenIds(prompt)) => {
            checker.check(!prompt.ids.is_empty(), "token_ids.ids", || {
                "given 0 ids; allowed: 1 or more".into()
            });
        }
        Some(Prompt::Chat(chat)) => check_chat_prompt(checker, chat),
    }
}

fn check_chat_prompt(checker: &mut Checker, chat: &v1::ChatPrompt) {
    let count = chat.messages.len();
    checker.check((1..=MAX_MESSAGES).contains(&count), "chat.messages", || {
        format!("given {count} messages; allowed: 1 to {MAX_MESSAGES}")
    });
    for (index, message) in chat.messages.iter().take(MAX_MESSAGES).enumerate() {
        if message.role.is_empty() || message.role.len() > MAX_NAME_BYTES {
            checker.refuse(
                format!("chat.messages[{index}].role"),
                format!(
                    "given {} bytes; allowed: 1 to {MAX_NAME_BYTES}",
                    message.role.len()
                ),
            );
        }
    }
}

fn check_stopping(checker: &mut Checker, stopping: &v1::Stopping) {
    if let Some(max_tokens) = stopping.max_tokens {
        checker.check(max_tokens >= 1, "stopping.max_tokens", || {
            "given 0; allowed: 1 or more".into()
        });
        let min_tokens = stopping.min_tokens.unwrap_or(0);
        checker.check(min_tokens <= max_tokens, "stopping.min_tokens", || {
            format!("given {min_tokens}; allowed: up to max_tokens ({max_tokens})")
        });
    }
    let count = stopping.stop.len();
    checker.check(count <= MAX_STOP_TEXTS, "stopping.stop", || {
        format!("given {count} texts; allowed: up to {MAX_STOP_TEXTS}")
    });
    for (index, text) in stopping.stop.iter().take(MAX_STOP_TEXTS).enumerate() {
        if !(1..=MAX_STOP_TEXT_BYTES).contains(&text.len()) {
            checker.refuse(
                format!("stopping.stop[{index}]"),
                format!(
                    "given {} bytes; allowed: 1 to {MAX_STOP_TEXT_BYTES}",
                    text.len()
                ),
            );
        }
    }
    let count = stopping.stop_token_ids.len();
    checker.check(
        count <= MAX_STOP_TOKEN_IDS,
        "stopping.stop_token_ids",
        || format!("given {count} ids; allowed: up to {MAX_STOP_TOKEN_IDS}"),
    );
}

fn check_speculation(checker: &mut Checker, speculation: &v1::Speculation) {
    if let Some(nodes) = speculation.max_draft_tokens {
        checker.check(
            nodes as usize <= MAX_DRAFT_TOKENS,
            "speculation.max_draft_tokens",
            || format!("given {nodes}; allowed: 0 to {MAX_DRAFT_TOKENS}"),
        );
    }
    let mode = speculation.mode;
    checker.check(
        v1::SpeculationMode::try_from(mode).is_ok(),
        "speculation.mode",
        || {
            format!(
                "given {mode}; allowed: 0 (the server's), 1 (auto), 2 (off), 3 (bfs), 4 (prob), 5 (tiers), \
                 6 (eagle2) or 7 (chain)"
            )
        },
    );
    if let Some(prediction) = &speculation.prediction {
        checker.check(
            prediction.content.is_some(),
            "speculation.prediction",
            || "given no content; allowed: one of text and token_ids".into(),
        );
    }
}
