//! Schemas of answers.

use serde_json::{Value, json};

use super::schema::{
    Properties, about, flag, from, list, number, object, of, one_of, or_null, properties, string,
    token_id,
};

/// Every object that an answer holds.
pub(super) fn schemas() -> Properties {
    properties! {
        "ChatCompletion": answer("chat.completion", "ChatChoice", true),
        "ChatCompletionChunk": answer("chat.completion.chunk", "ChatChunkChoice", false),
        "Completion": answer("text_completion", "CompletionChoice", true),
        "CompletionChunk": answer("text_completion", "CompletionChoice", false),
        "ChatChoice": choice(properties! { "message": of("Message"), }, "ChatLogprobs"),
        "ChatChunkChoice": choice(properties! { "delta": of("Delta"), }, "ChatLogprobs"),
        "CompletionChoice": choice(properties! { "text": string(), }, "CompletionLogprobs"),
        "Message": object(properties! {
            "role": one_of(&["assistant"]),
            "content": string(),
            "refusal": json!({"type": "null"}),
        }, &["role", "content", "refusal"]),
        "Delta": object(properties! {
            "role": one_of(&["assistant"]),
            "content": string(),
        }, &[]),
        "ChatLogprobs": object(properties! {
            "content": list(&of("ChatToken")),
            "refusal": json!({"type": "null"}),
        }, &["content", "refusal"]),
        "ChatToken": object(token(properties! { "top_logprobs": list(&of("TopToken")), }),
            &["token", "logprob", "bytes", "top_logprobs"]),
        "TopToken": object(token(Properties::new()), &["token", "logprob", "bytes"]),
        "CompletionLogprobs": object(properties! {
            "tokens": list(&string()),
            "token_logprobs": list(&number()),
            "top_logprobs": list(&json!({"type": "object", "additionalProperties": number()})),
            "text_offset": about(list(&from(0)), "Where each token begins, in characters."),
        }, &["tokens", "token_logprobs", "top_logprobs", "text_offset"]),
        "RankedToken": object(properties! {
            "logprob": number(),
            "rank": or_null(from(1)),
            "decoded_token": string(),
        }, &["logprob", "rank", "decoded_token"]),
        "Usage": usage(),
        "Report": report(),
        "ModelList": object(properties! {
            "object": one_of(&["list"]),
            "data": list(&of("Model")),
        }, &["object", "data"]),
        "Model": object(properties! {
            "id": string(),
            "object": one_of(&["model"]),
            "created": from(0),
            "owned_by": string(),
            "max_model_len": about(from(1), "Longest prompt plus answer, in tokens."),
            "vocabulary_size": from(1),
            "workers": from(0),
            "system_fingerprint": string(),
        }, &["id", "object", "created", "owned_by", "max_model_len", "vocabulary_size", "workers",
            "system_fingerprint"]),
        "Error": object(properties! {
            "error": object(properties! {
                "message": string(),
                "type": string(),
                "param": or_null(string()),
                "code": or_null(string()),
            }, &["message", "type", "param", "code"]),
        }, &["error"]),
        "Health": object(properties! { "status": one_of(&["ok"]), }, &["status"]),
        "Readiness": object(properties! {
            "status": one_of(&["ready", "not ready"]),
            "models": list(&string()),
        }, &["status", "models"]),
        "Version": object(properties! { "version": string(), }, &["version"]),
    }
}

fn answer(name: &str, choice: &str, is_whole: bool) -> Value {
    let mut properties = properties! {
        "id": string(),
        "object": one_of(&[name]),
        "created": about(from(0), "Unix time in seconds."),
        "model": string(),
        "system_fingerprint": or_null(string()),
        "choices": list(&of(choice)),
        "usage": or_null(of("Usage")),
        "spectrie": of("Report"),
    };
    let mut required = vec![
        "id",
        "object",
        "created",
        "model",
        "system_fingerprint",
        "choices",
    ];
    if is_whole {
        required.extend(["usage", "spectrie"]);
    } else {
        let token = "In the first chunk of a stream that may be gone on with.";
        properties.insert("resume_token".into(), about(string(), token));
    }
    object(properties, &required)
}

fn choice(content: Properties, logprobs: &str) -> Value {
    let mut properties = properties! {
        "index": from(0),
        "logprobs": or_null(of(logprobs)),
        "finish_reason": or_null(one_of(&["stop", "length"])),
        "stop_reason": about(json!({"type": ["string", "integer"]}), "The stop text or stop token that ended it."),
        "token_ids": list(&token_id()),
        "prompt_logprobs": list(&or_null(json!({
            "type": "object", "additionalProperties": of("RankedToken"),
        }))),
    };
    properties.extend(content);
    object(properties, &["index", "logprobs", "finish_reason"])
}

fn token(more: Properties) -> Properties {
    let mut properties = properties! {
        "token": string(),
        "logprob": number(),
        "bytes": or_null(list(&json!({"type": "integer", "minimum": 0, "maximum": 255}))),
    };
    properties.extend(more);
    properties
}

fn usage() -> Value {
    let counts = |names: &[&str]| {
        let mut properties = Properties::new();
        for name in names {
            properties.insert((*name).to_owned(), from(0));
        }
        object(properties, names)
    };
    let mut usage = counts(&["prompt_tokens", "completion_tokens", "total_tokens"]);
    let prompt = counts(&["cached_tokens", "audio_tokens"]);
    usage["properties"]["prompt_tokens_details"] = prompt;
    usage["properties"]["completion_tokens_details"] = counts(&[
        "accepted_prediction_tokens",
        "rejected_prediction_tokens",
        "reasoning_tokens",
        "audio_tokens",
    ]);
    usage
}

fn report() -> Value {
    let sources = json!({"type": "object", "additionalProperties": from(0)});
    let speculation = properties! {
        "verify_steps": from(0),
        "drafted_tokens": from(0),
        "accepted_tokens": from(0),
        "accepted_by_source": sources,
    };
    let timing = properties! { "queue": number(), "prefill": number(), "decode": number(), };
    let required = [
        "verify_steps",
        "drafted_tokens",
        "accepted_tokens",
        "accepted_by_source",
    ];
    let report = properties! {
        "request_id": string(),
        "seed": about(or_null(from(0)), "Gives the same tokens again."),
        "speculation": object(speculation, &required),
        "timing_ms": object(timing, &["queue", "prefill", "decode"]),
        "numerics_changed": about(flag(), "The same seed need not give these tokens again: a choice went on at a worker of another numeric fingerprint, or one with fast arithmetic computed again what the client has; absent if none did."),
    };
    object(report, &["request_id", "seed", "speculation", "timing_ms"])
}
