//! The prompt of a request: chat messages, text or token ids, and the caller's `prediction`.

use std::collections::BTreeSet;

use serde_json::Value;
use spectrie_proto::v1;
use spectrie_proto::v1::generate_request::Prompt;

use super::fields::{Field, Fields, absent, given, to_token_ids, wrong};
use crate::http::error::HttpError;

/// Maximum prompts in one completion request; each runs as a separate request.
pub(crate) const MAX_PROMPTS: usize = 64;

const ROLES: &str = "\"system\", \"developer\", \"user\" or \"assistant\"";
const CONTENT: &str = "a string or a list of {\"type\": \"text\", \"text\": ...} parts";
const PROMPT: &str = "a string, a list of token ids, or a list of strings or of lists of token ids";

/// Fields of a message that only matter with tools.
pub(crate) const TOOL_FIELDS: &[&str] = &["tool_calls", "tool_call_id", "function_call"];

/// Reads `messages`, or `prompt_token_ids` in their place.
///
/// # Errors
/// A part that is no text, a role that is not known, a message that is not an object; both or none
/// of the two fields.
pub(super) fn take_chat_prompt(body: &mut Fields, ignored: &mut BTreeSet<String>) -> Field<Prompt> {
    let messages = match body.take("messages") {
        None => Vec::new(),
        Some(Value::Array(items)) => items,
        Some(other) => return Err(wrong("messages", &other, "a list of messages")),
    };
    let add_generation_prompt = body.take_bool("add_generation_prompt")?;
    if let Some(ids) = body.take_token_ids("prompt_token_ids")? {
        if messages.is_empty() {
            return Ok(Prompt::TokenIds(v1::TokenIds { ids }));
        }
        return Err(both("messages"));
    }
    if messages.is_empty() {
        return Err(absent("messages", "a list with at least one message"));
    }
    let messages = messages.into_iter().enumerate();
    let messages: Field<Vec<_>> = messages
        .map(|(index, value)| to_message(index, value, ignored))
        .collect();
    Ok(Prompt::Chat(v1::ChatPrompt {
        messages: messages?,
        add_generation_prompt,
    }))
}

fn to_message(
    index: usize,
    value: Value,
    ignored: &mut BTreeSet<String>,
) -> Field<v1::ChatMessage> {
    let path = format!("messages[{index}]");
    let mut message = Fields::from_value(&path, value)?;
    let role_path = message.path_of("role");
    let role = message
        .take_string("role", ROLES)?
        .ok_or_else(|| absent(&role_path, ROLES))?;
    let role = match role.as_str() {
        "system" | "user" | "assistant" => role,
        // OpenAI's newer name of the same role.
        "developer" => "system".to_owned(),
        "tool" | "function" => {
            return Err(HttpError::unsupported(
                &role_path,
                format!("{role_path}: given {role:?}; allowed: {ROLES}: tools are not supported"),
            ));
        }
        _ => return Err(wrong(&role_path, &Value::String(role), ROLES)),
    };
    for name in TOOL_FIELDS {
        let path = message.path_of(name);
        if let Some(value) = message.take(name)
            && value.as_array().is_none_or(|items| !items.is_empty())
        {
            return Err(HttpError::unsupported(
                &path,
                format!(
                    "{path}: given {}, tools are not supported: leave it out",
                    given(&value)
                ),
            ));
        }
    }
    let content_path = message.path_of("content");
    let content = message
        .take("content")
        .ok_or_else(|| absent(&content_path, CONTENT))?;
    let content = to_text(&content_path, content, "\n")?;
    // An assistant's message sent back as it came carries empty extras.
    let rest = message.rest().into_iter();
    ignored
        .extend(rest.filter_map(|name| Some(format!("messages[].{}", name.rsplit_once('.')?.1))));
    Ok(v1::ChatMessage { role, content })
}

/// Reads content: a string, or a list of text parts that are joined by `separator`.
fn to_text(path: &str, value: Value, separator: &str) -> Field<String> {
    let items = match value {
        Value::String(text) => return Ok(text),
        Value::Array(items) => items,
        other => return Err(wrong(path, &other, CONTENT)),
    };
    let parts = items.into_iter().enumerate();
    let parts: Field<Vec<_>> = parts
        .map(|(index, value)| to_part(&format!("{path}[{index}]"), value))
        .collect();
    Ok(parts?.join(separator))
}

fn to_part(path: &str, value: Value) -> Field<String> {
    let mut part = Fields::from_value(path, value)?;
    let kind_path = part.path_of("type");
    match part.take_string("type", "\"text\"")?.as_deref() {
        Some("text") => {}
        Some(other) => {
            return Err(HttpError::unsupported(
                &kind_path,
                format!("{kind_path}: given {other:?}; allowed: \"text\""),
            ));
        }
        None => {
            return Err(absent(&kind_path, "\"text\""));
        }
    }
    let text_path = part.path_of("text");
    part.take_string("text", "a string")?
        .ok_or_else(|| absent(&text_path, "a string"))
}

/// Reads `prompt` of `/v1/completions`, or `prompt_token_ids` in its place: one prompt or several.
///
/// # Errors
/// Any other shape, more than 64 prompts, both or none of the two fields.
pub(super) fn take_prompts(body: &mut Fields) -> Field<Vec<Prompt>> {
    let prompt = body.take("prompt");
    if let Some(ids) = body.take_token_ids("prompt_token_ids")? {
        return match prompt {
            None => Ok(vec![Prompt::TokenIds(v1::TokenIds { ids })]),
            Some(Value::String(text)) if text.is_empty() => {
                Ok(vec![Prompt::TokenIds(v1::TokenIds { ids })])
            }
            Some(_) => Err(both("prompt")),
        };
    }
    let items = match prompt {
        Some(Value::String(text)) => return Ok(vec![Prompt::Text(text)]),
        Some(Value::Array(items)) => items,
        Some(other) => return Err(wrong("prompt", &other, PROMPT)),
        None => {
            return Err(absent("prompt", PROMPT));
        }
    };
    if items.first().is_none_or(Value::is_number) {
        if items.is_empty() {
            return Err(wrong("prompt", &Value::Array(items), PROMPT));
        }
        let ids = to_token_ids("prompt", &items)?;
        return Ok(vec![Prompt::TokenIds(v1::TokenIds { ids })]);
    }
    if items.len() > MAX_PROMPTS {
        return Err(HttpError::invalid(
            "prompt",
            format!(
                "prompt: given {} prompts; allowed: up to {MAX_PROMPTS}",
                items.len()
            ),
        ));
    }
    let items = items.into_iter().enumerate();
    items
        .map(|(index, item)| to_prompt(&format!("prompt[{index}]"), item))
        .collect()
}

fn to_prompt(path: &str, value: Value) -> Field<Prompt> {
    match value {
        Value::String(text) => Ok(Prompt::Text(text)),
        Value::Array(items) => {
            let ids = to_token_ids(path, &items)?;
            Ok(Prompt::TokenIds(v1::TokenIds { ids }))
        }
        other => Err(wrong(path, &other, "a string or a list of token ids")),
    }
}

fn both(name: &str) -> HttpError {
    HttpError::invalid(
        "prompt_token_ids",
        format!("prompt_token_ids: given together with {name}; allowed: one of them"),
    )
}

/// Reads OpenAI's `prediction`: `{"type": "content", "content": string or text parts}`.
///
/// # Errors
/// Another type, or content that is no text.
pub(super) fn take_prediction(
    body: &mut Fields,
    ignored: &mut BTreeSet<String>,
) -> Field<Option<v1::Prediction>> {
    let Some(mut prediction) = body.take_object("prediction")? else {
        return Ok(None);
    };
    match prediction.take_string("type", "\"content\"")?.as_deref() {
        Some("content") => {}
        Some(other) => {
            return Err(HttpError::unsupported(
                "prediction.type",
                format!("prediction.type: given {other:?}; allowed: \"content\""),
            ));
        }
        None => {
            return Err(absent("prediction.type", "\"content\""));
        }
    }
    let content = prediction
        .take("content")
        .ok_or_else(|| absent("prediction.content", CONTENT))?;
    let text = to_text("prediction.content", content, "")?;
    ignored.extend(prediction.rest());
    Ok(Some(v1::Prediction {
        content: Some(v1::prediction::Content::Text(text)),
    }))
}
