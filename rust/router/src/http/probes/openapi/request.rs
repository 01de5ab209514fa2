//! Schemas of request bodies. Fields that none of them names are accepted, and listed in the header
//! `x-spectrie-ignored`.

use serde_json::{Value, json};
use spectrie_types::limits::{
    MAX_BAD_WORDS, MAX_CACHE_KEY_BYTES, MAX_CHOICES, MAX_DRAFT_TOKENS, MAX_MESSAGES,
    MAX_NAME_BYTES, MAX_STOP_TEXTS, MAX_STOP_TOKEN_IDS, MAX_STRUCTURED_CHOICES, MAX_TOP_LOGPROBS,
};
use spectrie_types::options::SamplingParameters;

use super::schema::{
    Properties, about, between, flag, from, list, number, object, of, one_of, option, or_null,
    properties, string, token_id, up_to,
};
use crate::http::convert::{MAX_PROMPTS, TOOL_FIELDS, WITHOUT_EFFECT, refused_fields};

/// `ChatRequest` and `CompletionRequest`, with the parts that they share.
pub(super) fn schemas() -> Properties {
    let mut chat = common(false);
    chat.extend(properties! {
        "messages": about(or_null(up_to(MAX_MESSAGES, &of("ChatMessage"))), "Required without prompt_token_ids."),
        "add_generation_prompt": about(or_null(flag()), "Whether the prompt ends with the beginning of an answer: true."),
        "logprobs": about(or_null(flag()), "Whether the answer carries log-probabilities: false."),
        "top_logprobs": about(count(), "How many alternatives to report with each token; needs logprobs."),
    });
    let mut completions = common(true);
    let prompt = json!({"anyOf": [
        string(),
        list(&token_id()),
        up_to(MAX_PROMPTS, &string()),
        up_to(MAX_PROMPTS, &list(&token_id())),
        {"type": "null"},
    ]});
    completions.extend(properties! {
        "prompt": about(prompt, "Text or token ids, or several of them. Required without prompt_token_ids."),
        "logprobs": about(count(), "How many alternatives to report with each token; log-probabilities are absent without it."),
    });
    properties! {
        "ChatRequest": object(chat, &[]),
        "CompletionRequest": object(completions, &[]),
        "ChatMessage": message(),
        "Content": content(),
        "Prediction": object(properties! {
            "type": one_of(&["content"]),
            "content": of("Content"),
        }, &["type", "content"]),
        "SpeculationOptions": object(properties! {
            "enabled": or_null(flag()),
            "max_draft_tokens": or_null(between(0, MAX_DRAFT_TOKENS as i64)),
            "mode": or_null(one_of(&["auto", "off", "bfs", "prob", "tiers", "eagle2", "chain"])),
            "learn": about(or_null(flag()), "Whether the request's text enters shared memory: true."),
        }, &[]),
        "ResponseFormat": object(properties! {
            "type": one_of(&["text", "json_object", "json_schema"]),
            "json_schema": or_null(object(properties! {
                "name": or_null(string()),
                "description": or_null(string()),
                "strict": or_null(flag()),
                "schema": about(json!({"type": ["object", "boolean"]}), "A JSON schema."),
            }, &["schema"])),
        }, &["type"]),
        "StructuredOutputs": about(object(properties! {
            "json": about(json!({"type": ["object", "boolean", "string", "null"]}), "A JSON schema."),
            "json_object": or_null(flag()),
            "regex": or_null(string()),
            "grammar": about(or_null(string()), "In Lark's form."),
            "choice": or_null(up_to(MAX_STRUCTURED_CHOICES, &string())),
            "structural_tag": refused("structural tags are not supported: leave them out"),
        }, &[]), "Exactly one of its fields."),
    }
}

/// What both endpoints take.
fn common(completions: bool) -> Properties {
    let bias = json!({"type": "object", "additionalProperties": number()});
    let stop = json!({"anyOf": [string(), up_to(MAX_STOP_TEXTS, &string()), {"type": "null"}]});
    let stream_options = object(
        properties! {
            "include_usage": or_null(flag()),
            "include_obfuscation": without_effect(),
        },
        &[],
    );
    let seed = json!({"type": "integer", "minimum": i64::MIN, "maximum": u64::MAX});
    let most_name = MAX_NAME_BYTES;
    let name =
        json!({"type": "string", "minLength": 1, "maxLength": most_name, "pattern": "^[!-~]+$"});
    let key = json!({"type": "string", "maxLength": MAX_CACHE_KEY_BYTES});
    let mut fields = properties! {
        "model": about(or_null(string()), "A served model; may be absent where one is served."),
        "request_id": about(or_null(name.clone()), "Unique among the running requests of a tenant; drawn if absent."),
        "prompt_token_ids": about(or_null(list(&token_id())), "In place of text."),
        "n": about(or_null(between(1, i64::from(MAX_CHOICES))), "Answers of each prompt: 1."),
        "seed": about(or_null(seed), "Equal seeds give equal answers; drawn if absent."),
        "logit_bias": about(or_null(bias), "From token ids to numbers from -100 to 100."),
        "bad_words": or_null(up_to(MAX_BAD_WORDS, &string())),
        "max_tokens": or_null(from(1)),
        "max_completion_tokens": about(or_null(from(1)), "Another name of max_tokens."),
        "min_tokens": or_null(from(0)),
        "stop": stop,
        "stop_token_ids": or_null(up_to(MAX_STOP_TOKEN_IDS, &token_id())),
        "ignore_eos": or_null(flag()),
        "stream": about(or_null(flag()), "Whether to answer with server-sent events: false."),
        "stream_options": or_null(stream_options),
        "prediction": or_null(of("Prediction")),
        "speculation": or_null(of("SpeculationOptions")),
        "response_format": or_null(of("ResponseFormat")),
        "structured_outputs": or_null(of("StructuredOutputs")),
        "return_token_ids": or_null(flag()),
        "skip_special_tokens": or_null(flag()),
        "prompt_logprobs": count(),
        "namespace": about(or_null(name), "Whose draft memory; only with --allow-client-namespaces."),
        "priority": or_null(between(i64::from(i32::MIN), i64::from(i32::MAX))),
        "cache_salt": about(or_null(key.clone()), "Divides memory and prefix cache of a tenant."),
        "prompt_cache_key": about(or_null(key), "Steers requests to the worker that knows their text."),
    };
    for row in SamplingParameters::rows() {
        if fields.get(row.field).is_none() {
            fields.insert(row.field.to_owned(), option(row));
        }
    }
    for name in WITHOUT_EFFECT {
        fields.insert((*name).to_owned(), without_effect());
    }
    for (name, reason) in refused_fields(completions) {
        fields.insert(name.to_owned(), refused(reason));
    }
    fields
}

fn message() -> Value {
    let mut fields = properties! {
        "role": one_of(&["system", "developer", "user", "assistant"]),
        "content": of("Content"),
    };
    for name in TOOL_FIELDS {
        fields.insert(
            (*name).to_owned(),
            refused("tools are not supported: leave it out"),
        );
    }
    object(fields, &["role", "content"])
}

fn content() -> Value {
    let part = object(
        properties! {
            "type": one_of(&["text"]),
            "text": string(),
        },
        &["type", "text"],
    );
    json!({"anyOf": [string(), list(&part)]})
}

/// A number of alternatives; `false` asks for none.
fn count() -> Value {
    let count = between(0, i64::from(MAX_TOP_LOGPROBS));
    json!({"anyOf": [count, {"const": false}, {"type": "null"}]})
}

fn without_effect() -> Value {
    json!({"description": "Accepted, without effect."})
}

/// Values that ask for nothing, such as empty lists, are accepted too; null always is.
fn refused(reason: &str) -> Value {
    json!({"type": "null", "description": format!("Not acted on, and refused: {reason}.")})
}
