//! Fields that are refused: each by its name, with what was given and what is allowed.

use serde_json::{Value, json};

use super::bodies::{chat, completion};
use crate::http::convert::{Endpoint, convert};

/// (extra field of a chat body, param, code, message)
fn refusals() -> Vec<(Value, &'static str, &'static str, &'static str)> {
    const INVALID: &str = "invalid_value";
    const UNSUPPORTED: &str = "unsupported_value";
    vec![
        (
            json!({"temperature": "hot"}),
            "temperature",
            INVALID,
            "temperature: given the string \"hot\"; allowed: a number from 0 to 100",
        ),
        (
            json!({"top_p": 1e300}),
            "top_p",
            INVALID,
            "top_p: given 1e+300; allowed: a number above 0, up to 1",
        ),
        (
            json!({"max_tokens": 5.5}),
            "max_tokens",
            INVALID,
            "max_tokens: given 5.5; allowed: an integer, 1 or more",
        ),
        (
            json!({"n": -1}),
            "n",
            INVALID,
            "n: given -1; allowed: an integer from 1 to 8",
        ),
        (
            json!({"n": 4_294_967_296_u64}),
            "n",
            INVALID,
            "n: given 4294967296; allowed: an integer from 1 to 8",
        ),
        (
            json!({"seed": 1.5}),
            "seed",
            INVALID,
            "seed: given 1.5; allowed: an integer from -9223372036854775808 to 18446744073709551615",
        ),
        (
            json!({"stop": [1]}),
            "stop[0]",
            INVALID,
            "stop[0]: given 1; allowed: a string",
        ),
        (
            json!({"stream": "yes"}),
            "stream",
            INVALID,
            "stream: given the string \"yes\"; allowed: true or false",
        ),
        (
            json!({"logit_bias": {"x": 1}}),
            "logit_bias",
            INVALID,
            "logit_bias: given the key \"x\"; allowed: an object from token ids to numbers from -100 to 100",
        ),
        (
            json!({"logit_bias": [1]}),
            "logit_bias",
            INVALID,
            "logit_bias: given a list of 1; allowed: an object from token ids to numbers from -100 to 100",
        ),
        (
            json!({"max_tokens": 4, "max_completion_tokens": 5}),
            "max_completion_tokens",
            INVALID,
            "max_completion_tokens: given 5 together with max_tokens 4; allowed: one of them",
        ),
        (
            json!({"messages": []}),
            "messages",
            INVALID,
            "messages is required: expected a list with at least one message",
        ),
        (
            json!({"messages": ["hi"]}),
            "messages[0]",
            INVALID,
            "messages[0]: given the string \"hi\"; allowed: an object",
        ),
        (
            json!({"messages": [{"content": "x"}]}),
            "messages[0].role",
            INVALID,
            "messages[0].role is required: expected \"system\", \"developer\", \"user\" or \"assistant\"",
        ),
        (
            json!({"messages": [{"role": "robot", "content": "x"}]}),
            "messages[0].role",
            INVALID,
            "messages[0].role: given the string \"robot\"; allowed: \"system\", \"developer\", \"user\" or \"assistant\"",
        ),
        (
            json!({"messages": [{"role": "tool", "content": "x"}]}),
            "messages[0].role",
            UNSUPPORTED,
            "messages[0].role: given \"tool\"; allowed: \"system\", \"developer\", \"user\" or \"assistant\": tools are not supported",
        ),
        (
            json!({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}),
            "messages[0].content[0].type",
            UNSUPPORTED,
            "messages[0].content[0].type: given \"image_url\"; allowed: \"text\"",
        ),
        (
            json!({"messages": [{"role": "user", "content": null}]}),
            "messages[0].content",
            INVALID,
            "messages[0].content is required: expected a string or a list of {\"type\": \"text\", \"text\": ...} parts",
        ),
        (
            json!({"prompt_token_ids": [1]}),
            "prompt_token_ids",
            INVALID,
            "prompt_token_ids: given together with messages; allowed: one of them",
        ),
        (
            json!({"prediction": "x"}),
            "prediction",
            INVALID,
            "prediction: given the string \"x\"; allowed: an object",
        ),
        (
            json!({"prediction": {"type": "file", "content": "x"}}),
            "prediction.type",
            UNSUPPORTED,
            "prediction.type: given \"file\"; allowed: \"content\"",
        ),
        (
            json!({"prediction": {"type": "content", "content": 5}}),
            "prediction.content",
            INVALID,
            "prediction.content: given 5; allowed: a string or a list of {\"type\": \"text\", \"text\": ...} parts",
        ),
        (
            json!({"speculation": true}),
            "speculation",
            INVALID,
            "speculation: given true; allowed: an object",
        ),
        (
            json!({"speculation": {"mode": "fast"}}),
            "speculation.mode",
            INVALID,
            "speculation.mode: given the string \"fast\"; allowed: \"auto\", \"off\", \"bfs\", \"prob\", \"tiers\", \"eagle2\" or \"chain\"",
        ),
        (
            json!({"logprobs": 5}),
            "logprobs",
            INVALID,
            "logprobs: given 5; allowed: true or false",
        ),
        (
            json!({"top_logprobs": 5}),
            "top_logprobs",
            INVALID,
            "top_logprobs: given 5 without logprobs; allowed: with logprobs true",
        ),
        (
            json!({"logprobs": true, "top_logprobs": -1}),
            "top_logprobs",
            INVALID,
            "top_logprobs: given -1; allowed: an integer from 0 to 20",
        ),
        (
            json!({"bad_words": "no"}),
            "bad_words",
            INVALID,
            "bad_words: given the string \"no\"; allowed: a list of strings",
        ),
        (
            json!({"tools": [{}]}),
            "tools",
            UNSUPPORTED,
            "tools: given a list of 1, tools are not supported: leave it out or send an empty list",
        ),
        (
            json!({"response_format": {"type": "xml"}}),
            "response_format.type",
            INVALID,
            "response_format.type: given the string \"xml\"; allowed: \"text\", \"json_object\" or \"json_schema\"",
        ),
        (
            json!({"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}}),
            "response_format.json_schema.schema",
            INVALID,
            "response_format.json_schema.schema is required: expected a JSON schema",
        ),
        (
            json!({"response_format": {"type": "json_object"}, "structured_outputs": {"regex": "a"}}),
            "structured_outputs",
            INVALID,
            "structured_outputs: given together with response_format; allowed: one of them",
        ),
        (
            json!({"structured_outputs": {"regex": "a", "choice": ["b"]}}),
            "structured_outputs",
            INVALID,
            "structured_outputs: given 2 constraints; allowed: one of json, json_object, regex, grammar and choice",
        ),
        (
            json!({"structured_outputs": {"choice": ["b", 1]}}),
            "structured_outputs.choice[1]",
            INVALID,
            "structured_outputs.choice[1]: given 1; allowed: a string",
        ),
        (
            json!({"guided_regex": "a+"}),
            "guided_regex",
            UNSUPPORTED,
            "guided_regex: given the string \"a+\", structured output goes by another name here: use structured_outputs or response_format",
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
            "prompt is required: expected a string, a list of token ids, or a list of strings or of lists of token ids",
        ),
        (
            json!({"prompt": []}),
            "prompt",
            "prompt: given an empty list; allowed: a string, a list of token ids, or a list of strings or of lists of token ids",
        ),
        (
            json!({"prompt": [1, -2]}),
            "prompt[1]",
            "prompt[1]: given -2; allowed: a token id",
        ),
        (
            json!({"prompt": ["a", 1]}),
            "prompt[1]",
            "prompt[1]: given 1; allowed: a string or a list of token ids",
        ),
        (
            json!({"prompt": vec!["a"; 65]}),
            "prompt",
            "prompt: given 65 prompts; allowed: up to 64",
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
            json!({"logprobs": true}),
            "logprobs",
            "logprobs: given true; allowed: an integer from 0 to 20",
        ),
    ] {
        let error = completion(extra).unwrap_err();
        assert_eq!(error.message, message);
        assert_eq!(error.param.as_deref(), Some(param), "{message}");
    }
}

#[test]
fn prompts_that_share_too_much_are_refused() {
    let prediction = "x".repeat(1 << 20);
    let of = |num_prompts| {
        let prompts = vec!["a"; num_prompts];
        let prediction = json!({"type": "content", "content": prediction});
        completion(json!({"prompt": prompts, "prediction": prediction}))
    };
    assert_eq!(of(15).unwrap().requests.len(), 15);
    let error = of(16).unwrap_err();
    assert_eq!(error.param.as_deref(), Some("prompt"));
    assert!(
        error
            .message
            .starts_with("prompt: given 16 prompts that share 1048"),
        "{}",
        error.message
    );
}

#[test]
fn body_that_is_no_object_is_refused_without_a_param() {
    let error = convert(Endpoint::Chat, json!([1])).unwrap_err();
    assert_eq!(error.param, None);
    assert_eq!(
        error.message,
        "body: given a list of 1; allowed: a JSON object"
    );
}

#[test]
fn long_values_are_cut_in_messages() {
    let error = chat(json!({"temperature": "é".repeat(1000)})).unwrap_err();
    assert!(error.message.contains("...") && error.message.len() < 250);
}
