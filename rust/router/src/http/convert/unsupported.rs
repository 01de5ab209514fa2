//! OpenAI's fields that this server does not act on: those it refuses, and those it can leave
//! alone.
//!
//! A field is refused when ignoring it would give a client another kind of answer than it asked
//! for. Values that ask for nothing (`"tools": []`, `"echo": false`) are fine, since clients
//! send them by default.

use serde_json::Value;

use super::fields::{Field, Fields, given};
use crate::http::error::HttpError;

/// A field that is refused unless its value asks for nothing.
struct Refused {
    name: &'static str,
    asks_for_nothing: fn(&Value) -> bool,
    /// Ends the sentence "FIELD: given VALUE, …".
    reason: &'static str,
}

/// Fields that change nothing in an answer: accepted without a word.
pub(crate) const WITHOUT_EFFECT: &[&str] = &[
    "metadata",
    "parallel_tool_calls",
    "prompt_cache_options",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
    "store",
    "user",
];

const REFUSED: &[Refused] = &[
    refused(
        "tools",
        is_empty,
        "tools are not supported: leave it out or send an empty list",
    ),
    refused(
        "tool_choice",
        is_none_or_auto,
        "tools are not supported: leave it out or send \"none\"",
    ),
    refused(
        "functions",
        is_empty,
        "functions are not supported: leave it out",
    ),
    refused(
        "function_call",
        is_none_or_auto,
        "functions are not supported: leave it out",
    ),
    refused("guided_json", never, STRUCTURED),
    refused("guided_regex", never, STRUCTURED),
    refused("guided_choice", never, STRUCTURED),
    refused("guided_grammar", never, STRUCTURED),
    refused("regex", never, STRUCTURED),
    refused("ebnf", never, STRUCTURED),
    refused("json_schema", never, STRUCTURED),
    refused(
        "modalities",
        is_text_list,
        "only text is supported: leave it out or send [\"text\"]",
    ),
    refused("audio", never, "audio is not supported: leave it out"),
    refused(
        "allowed_token_ids",
        is_empty,
        "a list of allowed tokens is not supported: leave it out",
    ),
    refused(
        "use_beam_search",
        is_false,
        "beam search is not supported: leave it out",
    ),
    refused(
        "chat_template",
        never,
        "templates come from the model, not from requests: leave it out",
    ),
    refused(
        "continue_final_message",
        is_false,
        "continuing the last message is not supported: leave it out",
    ),
    refused(
        "include_stop_str_in_output",
        is_false,
        "the stop text is never part of the answer: leave it out",
    ),
];

/// The other fields that `/v1/completions` refuses.
const REFUSED_IN_COMPLETIONS: &[Refused] = &[
    refused(
        "echo",
        is_false,
        "repeating the prompt is not supported: leave it out or send false",
    ),
    refused(
        "suffix",
        is_empty_string,
        "inserting before a suffix is not supported: leave it out",
    ),
    refused(
        "best_of",
        is_one,
        "choosing the best of several is not supported: use n to get them all",
    ),
];

const STRUCTURED: &str = "structured output goes by another name here: use structured_outputs or \
     response_format";

const fn refused(
    name: &'static str,
    asks_for_nothing: fn(&Value) -> bool,
    reason: &'static str,
) -> Refused {
    Refused {
        name,
        asks_for_nothing,
        reason,
    }
}

/// Takes every field of this file's tables out of the body.
///
/// # Errors
/// `unsupported_value` naming the first field that asks for something this server does not do.
pub(super) fn take_unsupported(body: &mut Fields, completions: bool) -> Field<()> {
    for name in WITHOUT_EFFECT {
        body.take(name);
    }
    refuse(body, REFUSED)?;
    if completions {
        refuse(body, REFUSED_IN_COMPLETIONS)?;
    }
    Ok(())
}

/// The fields of an endpoint that are refused unless they ask for nothing, and why.
pub(crate) fn refused_fields(
    completions: bool,
) -> impl Iterator<Item = (&'static str, &'static str)> {
    let more = if completions {
        REFUSED_IN_COMPLETIONS
    } else {
        &[]
    };
    let rows = REFUSED.iter().chain(more);
    rows.map(|row| (row.name, row.reason))
}

fn refuse(body: &mut Fields, table: &[Refused]) -> Field<()> {
    for row in table {
        if let Some(value) = body.take(row.name)
            && !(row.asks_for_nothing)(&value)
        {
            let message = format!("{}: given {}, {}", row.name, given(&value), row.reason);
            return Err(HttpError::unsupported(row.name, message));
        }
    }
    Ok(())
}

fn never(_: &Value) -> bool {
    false
}

fn is_false(value: &Value) -> bool {
    value == &Value::Bool(false)
}

fn is_one(value: &Value) -> bool {
    value.as_u64() == Some(1)
}

fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
}

fn is_empty_string(value: &Value) -> bool {
    value.as_str() == Some("")
}

fn is_none_or_auto(value: &Value) -> bool {
    matches!(value.as_str(), Some("none" | "auto"))
}

fn is_text_list(value: &Value) -> bool {
    let items = value.as_array();
    items.is_some_and(|items| items.iter().all(|item| item.as_str() == Some("text")))
}
