//! Arbitrary bodies.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::string::{RegexGeneratorStrategy, string_regex};
use serde_json::{Map, Number, Value, json};

use crate::http::convert::{Endpoint, convert};

/// Every field that some table or reader knows, and one that none does.
const NAMES: &[&str] = &[
    "model",
    "messages",
    "prompt",
    "prompt_token_ids",
    "prediction",
    "temperature",
    "top_k",
    "seed",
    "n",
    "logit_bias",
    "max_tokens",
    "max_completion_tokens",
    "stop",
    "stop_token_ids",
    "stream",
    "stream_options",
    "speculation",
    "namespace",
    "priority",
    "logprobs",
    "top_logprobs",
    "prompt_logprobs",
    "bad_words",
    "typical_p",
    "structured_outputs",
    "tools",
    "response_format",
    "modalities",
    "best_of",
    "unheard_of",
];

/// Keys of inner objects, so that they are sometimes the right ones.
const INNER: &[&str] = &[
    "role",
    "content",
    "type",
    "text",
    "enabled",
    "mode",
    "7",
    "learn",
    "json_schema",
    "schema",
    "json",
    "regex",
    "choice",
];

/// A line of up to so many characters. Its pattern is read once: one that is given as a string is
/// read again for each value.
fn line(most: u32) -> RegexGeneratorStrategy<String> {
    string_regex(&format!(".{{0,{most}}}")).unwrap()
}

fn number() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (0_u32..100).prop_map(Value::from),
        any::<f64>().prop_map(|number| Number::from_f64(number).map_or(Value::Null, Value::from)),
    ]
}

fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec!["user", "system", "text", "content", "auto", ""])
            .prop_map(str::to_owned),
        line(60),
    ]
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number(),
        word().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let key = prop_oneof![
            prop::sample::select(INNER.to_vec()).prop_map(str::to_owned),
            line(8)
        ];
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(key, inner, 0..4)
                .prop_map(|map| Value::from(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn body() -> impl Strategy<Value = Value> {
    let fields = vec((prop::sample::select(NAMES.to_vec()), json_value()), 0..5);
    fields.prop_map(|fields| {
        let mut body = json!({
            "messages": [{"role": "user", "content": "x"}],
            "prompt": "x"
        });
        for (name, value) in fields {
            body[name] = value;
        }
        body
    })
}

/// The JSON of a body with some bytes changed, doubled or left out: often no JSON any more.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let change = (any::<Index>(), 0..3_u8, any::<u8>());
    (body(), vec(change, 0..6)).prop_map(|(body, changes)| {
        let mut bytes = body.to_string().into_bytes();
        for (at, kind, with) in changes {
            let at = at.index(bytes.len());
            match kind {
                0 => bytes[at] = with,
                1 => bytes.insert(at, with),
                _ => drop(bytes.remove(at)),
            }
        }
        bytes
    })
}

fn endpoint() -> impl Strategy<Value = Endpoint> {
    prop::sample::select(vec![Endpoint::Chat, Endpoint::Completions])
}

/// A body is converted or refused with the field's name, whatever it holds.
fn is_converted_or_refused_by_name(endpoint: Endpoint, body: &Value) {
    match convert(endpoint, body.clone()) {
        Ok(api) => assert!(!api.requests.is_empty()),
        Err(error) => {
            let param = error.param.as_deref().unwrap_or("");
            let field = param.split(['.', '[']).next().unwrap_or("");
            assert!(body.get(field).is_some(), "{param} is no field of {body}");
            assert!(error.message.starts_with(field), "{}", error.message);
            assert_eq!(error.status.as_u16(), 400);
        }
    }
}

/// Damaged bytes are no JSON, or a body without a word of which anything panics.
fn is_read_or_refused(endpoint: Endpoint, bytes: &[u8]) {
    if let Ok(body) = serde_json::from_slice::<Value>(bytes) {
        match convert(endpoint, body) {
            Ok(api) => assert!(!api.requests.is_empty()),
            Err(error) => assert_eq!(error.status.as_u16(), 400, "{}", error.message),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn any_body_is_converted_or_refused_by_name(body in body(), endpoint in endpoint()) {
        is_converted_or_refused_by_name(endpoint, &body);
    }

    #[test]
    fn any_damaged_body_is_read_or_refused(bytes in damaged(), endpoint in endpoint()) {
        is_read_or_refused(endpoint, &bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 1_000_000, ..ProptestConfig::default() })]

    #[test]
    #[ignore = "deep: a million inputs"]
    fn any_of_a_million_bodies_is_converted_or_refused_by_name(body in body(), endpoint in endpoint()) {
        is_converted_or_refused_by_name(endpoint, &body);
    }

    #[test]
    #[ignore = "deep: a million inputs"]
    fn any_of_a_million_damaged_bodies_is_read_or_refused(bytes in damaged(), endpoint in endpoint()) {
        is_read_or_refused(endpoint, &bytes);
    }
}
