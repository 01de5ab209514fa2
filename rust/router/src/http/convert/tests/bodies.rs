//! Bodies that are converted.

use serde_json::{Value, json};
use spectrie_proto::v1;
use spectrie_proto::v1::generate_request::Prompt;
use spectrie_proto::v1::prediction::Content;
use spectrie_proto::v1::structured::Constraint;

use crate::http::convert::{ApiRequest, Endpoint, convert};
use crate::http::error::HttpError;

pub(super) fn chat(extra: Value) -> Result<ApiRequest, HttpError> {
    with(
        Endpoint::Chat,
        json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]}),
        extra,
    )
}

pub(super) fn completion(extra: Value) -> Result<ApiRequest, HttpError> {
    with(
        Endpoint::Completions,
        json!({"model": "m", "prompt": "hi"}),
        extra,
    )
}

fn with(endpoint: Endpoint, mut body: Value, extra: Value) -> Result<ApiRequest, HttpError> {
    let (Value::Object(fields), Value::Object(extra)) = (&mut body, extra) else {
        panic!("bodies are objects");
    };
    fields.extend(extra);
    convert(endpoint, body)
}

fn prompts(api: ApiRequest) -> Vec<Prompt> {
    let requests = api.requests.into_iter();
    requests.map(|request| request.prompt.unwrap()).collect()
}

#[test]
fn every_field_reaches_the_core() {
    let api = chat(json!({
        "stream": true,
        "stream_options": {"include_usage": true, "include_obfuscation": false},
        "max_completion_tokens": 9,
        "min_tokens": 2,
        "stop": ["a", "b"],
        "stop_token_ids": [5],
        "ignore_eos": true,
        "temperature": 0.5,
        "top_p": 0.25,
        "top_k": 4,
        "min_p": 0.125,
        "seed": 7,
        "n": 3,
        "frequency_penalty": 1,
        "presence_penalty": -1.5,
        "repetition_penalty": 1.25,
        "logit_bias": {"11": -100, "3": 0.5},
        "prediction": {"type": "content", "content": "guess"},
        "speculation": {"enabled": true, "max_draft_tokens": 8, "mode": "prob", "learn": false},
        "namespace": "team",
        "priority": -2,
        "cache_salt": "s",
        "prompt_cache_key": "k",
        "typical_p": 0.75,
        "bad_words": ["no"],
        "logprobs": true,
        "top_logprobs": 4,
        "prompt_logprobs": 0,
        "structured_outputs": {"choice": ["yes", "no"]},
        "return_token_ids": true,
        "skip_special_tokens": false
    }))
    .unwrap();
    assert!(api.stream && api.extras.include_usage && api.extras.return_token_ids);
    assert_eq!(api.num_choices, 3);
    assert_eq!(api.ignored, Vec::<String>::new());
    let expected = v1::GenerateRequest {
        request_id: None,
        model: Some("m".into()),
        prompt: Some(Prompt::Chat(v1::ChatPrompt {
            messages: vec![v1::ChatMessage {
                role: "user".into(),
                content: "hi".into(),
            }],
            add_generation_prompt: None,
        })),
        sampling: Some(v1::Sampling {
            temperature: Some(0.5),
            top_p: Some(0.25),
            top_k: Some(4),
            min_p: Some(0.125),
            seed: Some(7),
            n: Some(3),
            frequency_penalty: Some(1.0),
            presence_penalty: Some(-1.5),
            repetition_penalty: Some(1.25),
            logit_bias: [(3, 0.5), (11, -100.0)].into(),
            typical_p: Some(0.75),
            bad_words: vec!["no".into()],
        }),
        stopping: Some(v1::Stopping {
            max_tokens: Some(9),
            min_tokens: Some(2),
            stop: vec!["a".into(), "b".into()],
            stop_token_ids: vec![5],
            ignore_eos: Some(true),
        }),
        output: Some(v1::Output {
            token_ids: Some(true),
            sources: None,
            skip_special_tokens: Some(false),
            logprobs: Some(4),
            prompt_logprobs: Some(0),
        }),
        speculation: Some(v1::Speculation {
            enabled: Some(true),
            max_draft_tokens: Some(8),
            mode: v1::SpeculationMode::Prob.into(),
            learn: Some(false),
            prediction: Some(v1::Prediction {
                content: Some(Content::Text("guess".into())),
            }),
        }),
        namespace: Some("team".into()),
        priority: Some(-2),
        cache_salt: Some("s".into()),
        prompt_cache_key: Some("k".into()),
        structured: Some(v1::Structured {
            constraint: Some(Constraint::Choice(v1::Choices {
                texts: vec!["yes".into(), "no".into()],
            })),
        }),
    };
    assert_eq!(api.requests, [expected]);
}

#[test]
fn absent_and_null_fields_leave_the_choice_to_the_core() {
    let api = chat(json!({"temperature": null, "stop": null, "prediction": null})).unwrap();
    let request = &api.requests[0];
    assert_eq!(request.sampling, Some(v1::Sampling::default()));
    assert_eq!(request.stopping, Some(v1::Stopping::default()));
    assert_eq!(request.speculation, None);
    assert!(!api.stream && !api.extras.report_speculation);
}

#[test]
fn completions_default_to_sixteen_tokens_and_chat_to_the_rest_of_the_context() {
    let length = |api: ApiRequest| api.requests[0].stopping.clone().unwrap().max_tokens;
    assert_eq!(length(completion(json!({})).unwrap()), Some(16));
    assert_eq!(
        length(completion(json!({"max_tokens": 3})).unwrap()),
        Some(3)
    );
    assert_eq!(length(chat(json!({})).unwrap()), None);
}

#[test]
fn seeds_of_either_sign_keep_their_bits() {
    let seed = |value: Value| {
        let api = chat(json!({"seed": value})).unwrap();
        api.requests[0].sampling.clone().unwrap().seed
    };
    assert_eq!(seed(json!(-1)), Some(u64::MAX));
    assert_eq!(seed(json!(i64::MIN)), Some(1 << 63));
    assert_eq!(seed(json!(u64::MAX)), Some(u64::MAX));
}

#[test]
fn text_parts_join_and_developer_is_system() {
    let api = chat(json!({"messages": [
        {"role": "developer", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": "c", "tool_calls": [], "refusal": null, "name": "bot"}
    ]}))
    .unwrap();
    assert_eq!(api.ignored, ["messages[].name"]);
    let Prompt::Chat(chat) = &prompts(api)[0] else {
        panic!("a chat prompt");
    };
    assert_eq!(chat.messages[0].role, "system");
    assert_eq!(chat.messages[0].content, "a\nb");
    assert_eq!(chat.messages[1].content, "c");
}

#[test]
fn completions_take_every_shape_of_prompt() {
    let ids = |ids: &[u32]| Prompt::TokenIds(v1::TokenIds { ids: ids.into() });
    let shape = |prompt: Value| prompts(completion(json!({"prompt": prompt})).unwrap());
    assert_eq!(shape(json!("a")), [Prompt::Text("a".into())]);
    assert_eq!(shape(json!([1, 2])), [ids(&[1, 2])]);
    assert_eq!(
        shape(json!(["a", "b"])),
        [Prompt::Text("a".into()), Prompt::Text("b".into())]
    );
    assert_eq!(shape(json!([[1], [2, 3]])), [ids(&[1]), ids(&[2, 3])]);
    let api = completion(json!({"prompt": "", "prompt_token_ids": [4]})).unwrap();
    assert_eq!(prompts(api), [ids(&[4])]);
    let api = completion(json!({"prompt": ["a", "b"], "n": 2})).unwrap();
    assert_eq!(api.num_choices, 4);
}

#[test]
fn fields_without_effect_are_accepted_and_the_unknown_ones_named() {
    let api = chat(json!({
        "user": "u", "metadata": {"a": "b"}, "store": true, "service_tier": "auto",
        "parallel_tool_calls": true, "safety_identifier": "x",
        "logprobs": false, "tools": [], "tool_choice": "auto", "modalities": ["text"],
        "response_format": {"type": "text"},
        "reasoning_effort": "low", "frobnicate": 1, "nothing": null,
        "speculation": {"colour": 1}
    }))
    .unwrap();
    assert_eq!(
        api.ignored,
        ["frobnicate", "reasoning_effort", "speculation.colour"]
    );
    assert!(api.extras.report_speculation);
}

#[test]
fn form_of_the_answer_is_read_in_either_place_and_keeps_the_order_of_a_schema() {
    let constraint = |extra: Value| {
        let structured = chat(extra).unwrap().requests[0].structured.clone();
        structured.map(|structured| structured.constraint.unwrap())
    };
    let schema = json!({"properties": {"z": {}, "a": {}}, "additionalProperties": false});
    let written = schema.to_string();
    assert!(written.find("\"z\"") < written.find("\"a\""));
    let expected = Some(Constraint::JsonSchema(written.clone()));
    let format = json!({"name": "n", "description": "d", "strict": true, "schema": schema});
    for extra in [
        json!({"response_format": {"type": "json_schema", "json_schema": format}}),
        json!({"structured_outputs": {"json": schema}}),
        json!({"structured_outputs": {"json": written}}),
    ] {
        assert_eq!(constraint(extra), expected);
    }
    assert_eq!(
        constraint(json!({"response_format": {"type": "json_object"}})),
        Some(Constraint::JsonObject(true))
    );
    assert_eq!(
        constraint(json!({"structured_outputs": {"grammar": "start: \"a\""}})),
        Some(Constraint::Grammar("start: \"a\"".into()))
    );
    assert_eq!(
        constraint(json!({"response_format": {"type": "text"}})),
        None
    );
}

#[test]
fn alternatives_are_counted_in_each_endpoints_own_way() {
    let count = |api: ApiRequest| api.requests[0].output.unwrap().logprobs;
    assert_eq!(count(chat(json!({"logprobs": true})).unwrap()), Some(0));
    let none = json!({"logprobs": false, "top_logprobs": 0, "prompt_logprobs": false});
    assert_eq!(count(chat(none).unwrap()), None);
    assert_eq!(count(completion(json!({"logprobs": 0})).unwrap()), Some(0));
    assert_eq!(count(completion(json!({"logprobs": 5})).unwrap()), Some(5));
    assert_eq!(count(completion(json!({"logprobs": false})).unwrap()), None);
}
