use serde_json::{Value, json};
use spectrie_proto::v1;
use spectrie_proto::v1::generate_request::Prompt;
use spectrie_proto::v1::prediction::Content;

use super::*;
use crate::http::error::HttpError;

fn chat(extra: Value) -> Result<ApiRequest, HttpError> {
    with(
        Endpoint::Chat,
        json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]}),
        extra,
    )
}

fn completion(extra: Value) -> Result<ApiRequest, HttpError> {
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
        "return_token_ids": true,
        "skip_special_tokens": false
    }))
    .unwrap();
    assert!(api.stream && api.wishes.include_usage && api.wishes.return_token_ids);
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
    assert!(!api.stream && !api.wishes.report_speculation);
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
        "parallel_tool_calls": true, "safety_identifier": "x", "prompt_cache_key": "k",
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
    assert!(api.wishes.report_speculation);
}

/// (extra field of a chat body, param, code, message)
fn refusals() -> Vec<(Value, &'static str, &'static str, &'static str)> {
    const INVALID: &str = "invalid_value";
    const UNSUPPORTED: &str = "unsupported_value";
    vec![
        (
            json!({"temperature": "hot"}),
            "temperature",
            INVALID,
            "temperature: given the string \"hot\", allowed a number from 0 to 100",
        ),
        (
            json!({"top_p": 1e300}),
            "top_p",
            INVALID,
            "top_p: given 1e+300, allowed a number above 0 and at most 1",
        ),
        (
            json!({"max_tokens": 5.5}),
            "max_tokens",
            INVALID,
            "max_tokens: given 5.5, allowed an integer, 1 or more",
        ),
        (
            json!({"n": -1}),
            "n",
            INVALID,
            "n: given -1, allowed an integer from 1 to 8",
        ),
        (
            json!({"n": 4_294_967_296_u64}),
            "n",
            INVALID,
            "n: given 4294967296, allowed an integer from 1 to 8",
        ),
        (
            json!({"seed": 1.5}),
            "seed",
            INVALID,
            "seed: given 1.5, allowed an integer from -9223372036854775808 to 18446744073709551615",
        ),
        (
            json!({"stop": [1]}),
            "stop[0]",
            INVALID,
            "stop[0]: given 1, allowed a string",
        ),
        (
            json!({"stream": "yes"}),
            "stream",
            INVALID,
            "stream: given the string \"yes\", allowed true or false",
        ),
        (
            json!({"logit_bias": {"x": 1}}),
            "logit_bias",
            INVALID,
            "logit_bias: given the key \"x\", allowed an object from token ids to numbers from -100 to 100",
        ),
        (
            json!({"logit_bias": [1]}),
            "logit_bias",
            INVALID,
            "logit_bias: given a list of 1, allowed an object from token ids to numbers from -100 to 100",
        ),
        (
            json!({"max_tokens": 4, "max_completion_tokens": 5}),
            "max_completion_tokens",
            INVALID,
            "max_completion_tokens: given 5 together with max_tokens 4, allowed one of them",
        ),
        (
            json!({"messages": []}),
            "messages",
            INVALID,
            "messages: absent, needed is a list with at least one message",
        ),
        (
            json!({"messages": ["hi"]}),
            "messages[0]",
            INVALID,
            "messages[0]: given the string \"hi\", allowed an object",
        ),
        (
            json!({"messages": [{"content": "x"}]}),
            "messages[0].role",
            INVALID,
            "messages[0].role: absent, needed is \"system\", \"developer\", \"user\" or \"assistant\"",
        ),
        (
            json!({"messages": [{"role": "robot", "content": "x"}]}),
            "messages[0].role",
            INVALID,
            "messages[0].role: given the string \"robot\", allowed \"system\", \"developer\", \"user\" or \"assistant\"",
        ),
        (
            json!({"messages": [{"role": "tool", "content": "x"}]}),
            "messages[0].role",
            UNSUPPORTED,
            "messages[0].role: given \"tool\", allowed \"system\", \"developer\", \"user\" or \"assistant\": tools are not supported",
        ),
        (
            json!({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}),
            "messages[0].content[0].type",
            UNSUPPORTED,
            "messages[0].content[0].type: given \"image_url\", allowed \"text\"",
        ),
        (
            json!({"messages": [{"role": "user", "content": null}]}),
            "messages[0].content",
            INVALID,
            "messages[0].content: absent, needed is a string or a list of {\"type\": \"text\", \"text\": ...} parts",
        ),
        (
            json!({"prompt_token_ids": [1]}),
            "prompt_token_ids",
            INVALID,
            "prompt_token_ids: given together with messages, allowed one of them",
        ),
        (
            json!({"prediction": "x"}),
            "prediction",
            INVALID,
            "prediction: given the string \"x\", allowed an object",
        ),
        (
            json!({"prediction": {"type": "file", "content": "x"}}),
            "prediction.type",
            UNSUPPORTED,
            "prediction.type: given \"file\", allowed \"content\"",
        ),
        (
            json!({"prediction": {"type": "content", "content": 5}}),
            "prediction.content",
            INVALID,
            "prediction.content: given 5, allowed a string or a list of {\"type\": \"text\", \"text\": ...} parts",
        ),
        (
            json!({"speculation": true}),
            "speculation",
            INVALID,
            "speculation: given true, allowed an object",
        ),
        (
            json!({"speculation": {"mode": "fast"}}),
            "speculation.mode",
            INVALID,
            "speculation.mode: given the string \"fast\", allowed \"auto\", \"off\", \"bfs\" or \"prob\"",
        ),
        (
            json!({"logprobs": true}),
            "logprobs",
            UNSUPPORTED,
            "logprobs: given true, log probabilities are not supported: leave it out",
        ),
        (
            json!({"tools": [{}]}),
            "tools",
            UNSUPPORTED,
            "tools: given a list of 1, tools are not supported: leave it out or send an empty list",
        ),
        (
            json!({"response_format": {"type": "json_object"}}),
            "response_format",
            UNSUPPORTED,
            "response_format: given an object, structured output is not supported: leave it out or send {\"type\": \"text\"}",
        ),
        (
            json!({"modalities": ["text", "audio"]}),
            "modalities",
            UNSUPPORTED,
            "modalities: given a list of 2, only text is supported: leave it out or send [\"text\"]",
        ),
    ]
}

#[test]
fn wrong_chat_fields_are_refused_by_name_with_what_is_allowed() {
    for (extra, param, code, message) in refusals() {
        let error = chat(extra).unwrap_err();
        assert_eq!(error.message, message);
        assert_eq!(error.status, 400, "{message}");
        assert_eq!(error.param.as_deref(), Some(param), "{message}");
        assert_eq!(error.code, Some(code), "{message}");
        assert_eq!(error.kind, "invalid_request_error", "{message}");
    }
}

#[test]
fn wrong_completion_fields_are_refused_by_name() {
    for (extra, param, message) in [
        (
            json!({"prompt": null}),
            "prompt",
            "prompt: absent, needed is a string, a list of token ids, or a list of strings or of lists of token ids",
        ),
        (
            json!({"prompt": []}),
            "prompt",
            "prompt: given an empty list, allowed a string, a list of token ids, or a list of strings or of lists of token ids",
        ),
        (
            json!({"prompt": [1, -2]}),
            "prompt[1]",
            "prompt[1]: given -2, allowed a token id",
        ),
        (
            json!({"prompt": ["a", 1]}),
            "prompt[1]",
            "prompt[1]: given 1, allowed a string or a list of token ids",
        ),
        (
            json!({"prompt": vec!["a"; 65]}),
            "prompt",
            "prompt: given 65 prompts, allowed up to 64",
        ),
        (
            json!({"echo": true}),
            "echo",
            "echo: given true, repeating the prompt is not supported: leave it out or send false",
        ),
        (
            json!({"suffix": "x"}),
            "suffix",
            "suffix: given the string \"x\", inserting before a suffix is not supported: leave it out",
        ),
        (
            json!({"best_of": 4}),
            "best_of",
            "best_of: given 4, choosing the best of several is not supported: use n to get them all",
        ),
        (
            json!({"logprobs": 0}),
            "logprobs",
            "logprobs: given 0, log probabilities are not supported: leave it out",
        ),
    ] {
        let error = completion(extra).unwrap_err();
        assert_eq!(error.message, message);
        assert_eq!(error.param.as_deref(), Some(param), "{message}");
    }
}

#[test]
fn body_that_is_no_object_is_refused_without_a_param() {
    let error = convert(Endpoint::Chat, json!([1])).unwrap_err();
    assert_eq!(error.param, None);
    assert_eq!(
        error.message,
        "body: given a list of 1, allowed a JSON object"
    );
}

#[test]
fn long_values_are_cut_in_messages() {
    let error = chat(json!({"temperature": "é".repeat(1000)})).unwrap_err();
    assert!(error.message.contains("...") && error.message.len() < 250);
}
