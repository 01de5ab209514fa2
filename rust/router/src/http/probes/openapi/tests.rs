//! The document names every route, every field that is read and every field that is written.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use spectrie_proto::v1;

use super::document;
use crate::error::ErrorKind;
use crate::http::answer::logprobs::{Logprobs, PromptLogprobs};
use crate::http::answer::response::{Answer, Choice, Delta, Identity, Message, Stop};
use crate::http::answer::usage::Totals;
use crate::http::convert::{Endpoint, asked, convert};

/// The schema of that name, or what it refers to.
fn followed<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema.get("$ref").and_then(Value::as_str) {
        Some(path) => document.pointer(&path[1..]).unwrap(),
        None => schema,
    }
}

/// The names of all fields of a body, as errors write them.
fn named(document: &Value, schema: &Value, path: &str, names: &mut BTreeSet<String>) {
    let schema = followed(document, schema);
    let alternatives = schema.get("anyOf").and_then(Value::as_array);
    for alternative in alternatives.into_iter().flatten() {
        named(document, alternative, path, names);
    }
    if let Some(items) = schema.get("items") {
        named(document, items, &format!("{path}[]"), names);
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, schema) in properties.into_iter().flatten() {
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        named(document, schema, &path, names);
        names.insert(path);
    }
}

/// Bodies that visit every reader of an endpoint.
fn bodies(endpoint: Endpoint) -> Vec<Value> {
    let text = json!([{"type": "text", "text": "x"}]);
    let mut all = json!({
        "stream_options": {},
        "speculation": {},
        "prediction": {"type": "content", "content": text},
        "response_format": {"type": "json_schema", "json_schema": {"schema": {}}},
    });
    match endpoint {
        Endpoint::Chat => all["messages"] = json!([{"role": "user", "content": text}]),
        Endpoint::Completions => all["prompt"] = "x".into(),
    }
    let mut structured = all.clone();
    structured["response_format"] = Value::Null;
    structured["structured_outputs"] = json!({"regex": "a"});
    vec![all, structured]
}

#[test]
fn every_field_that_a_body_is_read_for_is_named_and_no_other() {
    let document = document();
    for (endpoint, schema) in [
        (Endpoint::Chat, "ChatRequest"),
        (Endpoint::Completions, "CompletionRequest"),
    ] {
        asked::forget();
        for body in bodies(endpoint) {
            convert(endpoint, body).unwrap();
        }
        let mut names = BTreeSet::new();
        let schema = &document["components"]["schemas"][schema];
        named(&document, schema, "", &mut names);
        assert_eq!(names, asked::names());
    }
}

/// Checks that `value` has every field that its schema requires and none that it does not name;
/// adds the named ones that it has to `seen`.
fn check(document: &Value, schema: &Value, value: &Value, path: &str, seen: &mut BTreeSet<String>) {
    if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
        let name = name.rsplit('/').next().unwrap();
        return check(document, followed(document, schema), value, name, seen);
    }
    if let Some(alternatives) = schema.get("anyOf").and_then(Value::as_array) {
        return match value {
            Value::Null => {}
            value => check(document, &alternatives[0], value, path, seen),
        };
    }
    match value {
        Value::Array(items) => {
            for item in items {
                check(document, &schema["items"], item, path, seen);
            }
        }
        Value::Object(fields) => {
            for name in schema["required"].as_array().into_iter().flatten() {
                assert!(fields.contains_key(name.as_str().unwrap()), "{path}.{name}");
            }
            for (name, value) in fields {
                let own = schema.get("properties").and_then(|all| all.get(name));
                let schema = own.or(schema.get("additionalProperties"));
                let schema = schema.unwrap_or_else(|| panic!("{path}.{name} is not named"));
                let path = format!("{path}.{name}");
                check(document, schema, value, &path, seen);
                seen.insert(path);
            }
        }
        _ => {}
    }
}

fn entry(logprob: Option<f32>) -> v1::TokenLogprob {
    v1::TokenLogprob {
        token_id: 1,
        logprob,
        text: "x".into(),
        bytes: (&b"x"[..]).into(),
        top: vec![v1::TopLogprob {
            token_id: 1,
            logprob: -0.5,
            text: "x".into(),
            bytes: (&b"x"[..]).into(),
        }],
    }
}

fn totals() -> Totals {
    let mut totals = Totals::new("r");
    totals.add_started(&v1::Started::default());
    let finished = v1::Finished {
        numerics_changed: true,
        ..Default::default()
    };
    totals.add_finished(&finished, true);
    totals
}

#[test]
fn every_field_of_an_answer_is_named_and_no_other() {
    let document = document();
    let mut seen = BTreeSet::new();
    let entries = [entry(None), entry(Some(-0.5))];
    for (endpoint, whole, chunk) in [
        (Endpoint::Chat, "ChatCompletion", "ChatCompletionChunk"),
        (Endpoint::Completions, "Completion", "CompletionChunk"),
    ] {
        let identity = Identity {
            endpoint,
            id: "i".into(),
            created: 1,
            model: "m".into(),
            system_fingerprint: Some("f".into()),
        };
        let is_chat = endpoint == Endpoint::Chat;
        for is_whole in [true, false] {
            // All fields by name: a new one must be named here, and so in the document.
            let choices = [Choice {
                index: 0,
                message: (is_chat && is_whole).then(|| Message::new("x")),
                delta: (is_chat && !is_whole).then_some(Delta {
                    role: Some("assistant"),
                    content: Some("x"),
                }),
                text: (!is_chat).then_some("x"),
                logprobs: Some(Logprobs::new(endpoint, &entries, false, &mut 0)),
                finish_reason: Some("stop"),
                stop_reason: Some(Stop::Token(1)),
                token_ids: Some(&[1]),
                prompt_logprobs: PromptLogprobs::new(&entries),
            }];
            let (usage, report) = (totals().usage(), totals().report());
            let (schema, values) = if is_whole {
                let answer = Answer::whole(&identity, &choices, usage, report);
                (whole, vec![json!(answer)])
            } else {
                let last = Answer::last_chunk(&identity, Some(usage), Some(report));
                (
                    chunk,
                    vec![
                        json!(Answer::chunk(&identity, &choices, true).resumable(Some("t"))),
                        json!(last),
                    ],
                )
            };
            for value in values {
                check(&document, &super::schema::of(schema), &value, "", &mut seen);
                let schema = &document["components"]["schemas"][schema];
                assert_eq!(value["object"], schema["properties"]["object"]["enum"][0]);
            }
        }
    }
    for name in [
        "ChatCompletion",
        "ChatCompletionChunk",
        "Completion",
        "CompletionChunk",
        "Usage",
        "Report",
        "ChatChoice",
        "ChatChunkChoice",
        "CompletionChoice",
        "Message",
        "Delta",
        "ChatLogprobs",
        "ChatToken",
        "TopToken",
        "CompletionLogprobs",
        "RankedToken",
    ] {
        let schema = &document["components"]["schemas"][name];
        for field in schema["properties"].as_object().unwrap().keys() {
            assert!(
                seen.contains(&format!("{name}.{field}")),
                "{name}.{field} in {seen:?}"
            );
        }
    }
}

#[test]
fn every_status_of_the_error_table_that_a_request_may_get_is_documented() {
    let document = document();
    // Operators' calls alone end in these.
    let operators = [
        ErrorKind::NotFound,
        ErrorKind::AlreadyExists,
        ErrorKind::FailedPrecondition,
    ];
    for path in ["/v1/chat/completions", "/v1/completions"] {
        let responses = &document["paths"][path]["post"]["responses"];
        for kind in ErrorKind::ALL {
            let status = kind.http_status().as_u16().to_string();
            let is_named = responses.get(&status).is_some();
            assert!(is_named || operators.contains(&kind), "{kind} {status}");
        }
    }
}

#[test]
fn every_reference_leads_somewhere() {
    fn visit(document: &Value, value: &Value) {
        match value {
            Value::Object(fields) => {
                followed(document, value);
                fields.values().for_each(|value| visit(document, value));
            }
            Value::Array(items) => items.iter().for_each(|value| visit(document, value)),
            _ => {}
        }
    }
    let document = document();
    visit(&document, &document);
}
