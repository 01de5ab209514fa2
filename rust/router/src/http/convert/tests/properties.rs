//! Arbitrary bodies.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
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
        ".{0,60}",
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
            ".{0,8}"
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    /// A body is converted or refused with the field's name, whatever it holds.
    #[test]
    fn any_body_is_converted_or_refused_by_name(body in body(), completions in any::<bool>()) {
        let endpoint = if completions { Endpoint::Completions } else { Endpoint::Chat };
        match convert(endpoint, body.clone()) {
            Ok(api) => prop_assert!(!api.requests.is_empty()),
            Err(error) => {
                let param = error.param.as_deref().unwrap_or("");
                let field = param.split(['.', '[']).next().unwrap_or("");
                prop_assert!(body.get(field).is_some(), "{} is no field of {body}", param);
                prop_assert!(error.message.starts_with(field), "{}", error.message);
                prop_assert_eq!(error.status.as_u16(), 400);
            }
        }
    }
}
