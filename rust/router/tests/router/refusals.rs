//! Bad requests over gRPC: each refused with its code, its field and what is allowed.

use std::collections::BTreeMap;

use crate::support::fake_worker::FakeWorker;
use crate::support::{TestRouter, request, within};
use spectrie_proto::v1;
use spectrie_proto::v1::generate_request::Prompt;
use spectrie_router::RouterConfig;
use tonic::Code;
use tonic_types::StatusExt as _;

/// What is wrong with the request, and how it is refused.
struct Case {
    name: &'static str,
    change: fn(&mut v1::GenerateRequest),
    code: Code,
    field: &'static str,
    message: &'static str,
}

fn sampling(request: &mut v1::GenerateRequest) -> &mut v1::Sampling {
    request.sampling.get_or_insert_default()
}

fn stopping(request: &mut v1::GenerateRequest) -> &mut v1::Stopping {
    request.stopping.get_or_insert_default()
}

fn output(request: &mut v1::GenerateRequest) -> &mut v1::Output {
    request.output.get_or_insert_default()
}

fn speculation(request: &mut v1::GenerateRequest) -> &mut v1::Speculation {
    request.speculation.get_or_insert_default()
}

fn chat(messages: &[(&str, &str)]) -> Prompt {
    let messages = messages.iter().map(|(role, content)| v1::ChatMessage {
        role: (*role).into(),
        content: (*content).into(),
    });
    Prompt::Chat(v1::ChatPrompt {
        messages: messages.collect(),
        ..Default::default()
    })
}

const fn invalid(
    name: &'static str,
    change: fn(&mut v1::GenerateRequest),
    field: &'static str,
    message: &'static str,
) -> Case {
    Case {
        name,
        change,
        code: Code::InvalidArgument,
        field,
        message,
    }
}

const CASES: &[Case] = &[
    invalid(
        "no prompt",
        |r| r.prompt = None,
        "prompt",
        "one of text, token_ids and chat",
    ),
    invalid(
        "empty text",
        |r| r.prompt = Some(Prompt::Text(String::new())),
        "text",
        "1 byte",
    ),
    invalid(
        "no ids",
        |r| r.prompt = Some(Prompt::TokenIds(v1::TokenIds::default())),
        "token_ids.ids",
        "given 0 ids",
    ),
    invalid(
        "id outside the vocabulary",
        |r| r.prompt = Some(Prompt::TokenIds(v1::TokenIds { ids: vec![1, 257] })),
        "token_ids.ids[1]",
        "given token id 257; allowed: 0 to 256",
    ),
    invalid(
        "no messages",
        |r| r.prompt = Some(chat(&[])),
        "chat.messages",
        "given 0 messages",
    ),
    invalid(
        "message without role",
        |r| r.prompt = Some(chat(&[("user", "a"), ("", "b")])),
        "chat.messages[1].role",
        "given 0 bytes",
    ),
    invalid(
        "role that the template refuses",
        |r| r.prompt = Some(chat(&[("robot", "a")])),
        "chat.messages",
        "robots may not speak",
    ),
    invalid(
        "prompt longer than the context",
        |r| r.prompt = Some(Prompt::Text("x".repeat(512))),
        "prompt",
        "given a prompt of 512 tokens; allowed: 1 to 511",
    ),
    invalid(
        "prompt and answer longer than the context",
        |r| stopping(r).max_tokens = Some(510),
        "stopping.max_tokens",
        "given 510 after a prompt of 3 tokens; allowed: 1 to 509",
    ),
    invalid(
        "no answer",
        |r| stopping(r).max_tokens = Some(0),
        "stopping.max_tokens",
        "given 0; allowed: 1 or more",
    ),
    invalid(
        "min above max",
        |r| {
            stopping(r).max_tokens = Some(4);
            stopping(r).min_tokens = Some(5);
        },
        "stopping.min_tokens",
        "given 5; allowed: up to max_tokens (4)",
    ),
    invalid(
        "empty stop text",
        |r| stopping(r).stop = vec!["a".into(), String::new()],
        "stopping.stop[1]",
        "given 0 bytes; allowed: 1 to 256",
    ),
    invalid(
        "too many stop texts",
        |r| stopping(r).stop = vec!["a".into(); 17],
        "stopping.stop",
        "given 17 texts; allowed: up to 16",
    ),
    invalid(
        "long stop text",
        |r| stopping(r).stop = vec!["a".repeat(257)],
        "stopping.stop[0]",
        "given 257 bytes",
    ),
    invalid(
        "stop token outside the vocabulary",
        |r| stopping(r).stop_token_ids = vec![u32::MAX],
        "stopping.stop_token_ids[0]",
        "given token id 4294967295",
    ),
    invalid(
        "too many stop tokens",
        |r| stopping(r).stop_token_ids = vec![1; 65],
        "stopping.stop_token_ids",
        "given 65 ids; allowed: up to 64",
    ),
    invalid(
        "negative temperature",
        |r| sampling(r).temperature = Some(-0.5),
        "sampling.temperature",
        "given -0.5; allowed: 0 to 100",
    ),
    invalid(
        "temperature that is no number",
        |r| sampling(r).temperature = Some(f32::NAN),
        "sampling.temperature",
        "given NaN",
    ),
    invalid(
        "top_p of 0",
        |r| sampling(r).top_p = Some(0.0),
        "sampling.top_p",
        "above 0, up to 1",
    ),
    invalid(
        "endless min_p",
        |r| sampling(r).min_p = Some(f32::INFINITY),
        "sampling.min_p",
        "given inf; allowed: 0 to 1",
    ),
    invalid(
        "no choices",
        |r| sampling(r).n = Some(0),
        "sampling.n",
        "given 0; allowed: 1 to 8",
    ),
    invalid(
        "too many choices",
        |r| sampling(r).n = Some(9),
        "sampling.n",
        "allowed: 1 to 8",
    ),
    invalid(
        "strong penalty",
        |r| sampling(r).frequency_penalty = Some(2.5),
        "sampling.frequency_penalty",
        "given 2.5; allowed: -2 to 2",
    ),
    invalid(
        "repetition penalty of 0",
        |r| sampling(r).repetition_penalty = Some(0.0),
        "sampling.repetition_penalty",
        "above 0, up to 10",
    ),
    invalid(
        "strong bias",
        |r| sampling(r).logit_bias = BTreeMap::from([(7, 101.0)]),
        "sampling.logit_bias[7]",
        "given 101; allowed: -100 to 100",
    ),
    invalid(
        "bias outside the vocabulary",
        |r| sampling(r).logit_bias = BTreeMap::from([(300, 1.0)]),
        "sampling.logit_bias",
        "given token id 300",
    ),
    invalid(
        "many biases",
        |r| sampling(r).logit_bias = (0..1025).map(|id| (id, 0.0)).collect(),
        "sampling.logit_bias",
        "given 1025 entries; allowed: up to 1024",
    ),
    invalid(
        "many draft nodes",
        |r| speculation(r).max_draft_tokens = Some(64),
        "speculation.max_draft_tokens",
        "given 64; allowed: 0 to 63",
    ),
    invalid(
        "unknown mode",
        |r| speculation(r).mode = 9,
        "speculation.mode",
        "given 9; allowed: 0",
    ),
    invalid(
        "empty prediction",
        |r| speculation(r).prediction = Some(v1::Prediction { content: None }),
        "speculation.prediction",
        "given no content",
    ),
    invalid(
        "prediction outside the vocabulary",
        |r| {
            let content = v1::prediction::Content::TokenIds(v1::TokenIds { ids: vec![257] });
            speculation(r).prediction = Some(v1::Prediction {
                content: Some(content),
            });
        },
        "speculation.prediction.token_ids.ids[0]",
        "given token id 257",
    ),
    invalid(
        "request id with a blank",
        |r| r.request_id = Some("a b".into()),
        "request_id",
        "printable ascii",
    ),
    invalid(
        "empty namespace",
        |r| r.namespace = Some(String::new()),
        "namespace",
        "0 bytes",
    ),
    invalid(
        "typical mass of zero",
        |r| sampling(r).typical_p = Some(0.0),
        "sampling.typical_p",
        "given 0; allowed: above 0, up to 1",
    ),
    invalid(
        "too many barred texts",
        |r| sampling(r).bad_words = vec!["a".into(); 65],
        "sampling.bad_words",
        "given 65 texts; allowed: up to 64",
    ),
    invalid(
        "barred text of too many tokens",
        |r| sampling(r).bad_words = vec!["a".into(), "x".repeat(33)],
        "sampling.bad_words[1]",
        "given 33 tokens; allowed: 1 to 32",
    ),
    invalid(
        "log-probabilities of too many tokens",
        |r| output(r).logprobs = Some(21),
        "output.logprobs",
        "given 21; allowed: 0 to 20",
    ),
    invalid(
        "form without a constraint",
        |r| r.structured = Some(v1::Structured::default()),
        "structured",
        "one of json_schema, json_object, regex, grammar and choice",
    ),
    Case {
        name: "namespace where none may be named",
        change: |r| r.namespace = Some("mine".into()),
        code: Code::PermissionDenied,
        field: "namespace",
        message: "--allow-client-namespaces",
    },
    Case {
        name: "unknown model",
        change: |r| r.model = Some("gpt".into()),
        code: Code::NotFound,
        field: "",
        message: "model \"gpt\" is not served; allowed: fake",
    },
];

#[tokio::test]
async fn bad_requests_are_refused_and_touch_nobody() {
    let router = TestRouter::start().await;
    let _worker = router.worker(FakeWorker::default()).await;
    let mut client = router.client().await;
    for Case {
        name,
        change,
        code,
        field,
        message,
    } in CASES
    {
        let mut bad = request("abc");
        change(&mut bad);
        let status = within(client.generate(bad.clone())).await.expect_err(name);
        assert_eq!(status.code(), *code, "{name}: {}", status.message());
        assert!(
            status.message().contains(message),
            "{name}: {}",
            status.message()
        );
        let details = status.get_error_details();
        let fields = details
            .bad_request()
            .map(|bad| bad.field_violations.clone());
        let first = fields
            .unwrap_or_default()
            .first()
            .map(|violation| violation.field.clone());
        assert_eq!(first.unwrap_or_default(), *field, "{name}");
        let streamed = within(client.generate_stream(bad)).await.expect_err(name);
        assert_eq!(
            (streamed.code(), streamed.message()),
            (*code, status.message()),
            "{name}"
        );
    }
    let good = within(client.generate(request("abc")))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(good.choices[0].text, "abc");
}

#[tokio::test]
async fn id_of_a_running_request_is_refused() {
    let router = TestRouter::start().await;
    let _worker = router
        .worker(FakeWorker {
            is_frozen: true,
            ..FakeWorker::default()
        })
        .await;
    let mut client = router.client().await;
    let mut asked = request("abc");
    asked.request_id = Some("r1".into());
    let running = within(client.generate_stream(asked.clone())).await.unwrap();
    let status = within(client.generate(asked)).await.unwrap_err();
    assert_eq!(status.code(), Code::AlreadyExists);
    let details = status.get_error_details();
    assert_eq!(details.resource_info().unwrap().resource_name, "r1");
    assert_eq!(details.request_info().unwrap().request_id, "r1");
    drop(running);
}

#[tokio::test]
async fn model_must_be_named_where_several_are_served() {
    let router = TestRouter::start().await;
    let _first = router.worker(FakeWorker::default()).await;
    let _second = router
        .worker(FakeWorker {
            model: "other".into(),
            ..FakeWorker::default()
        })
        .await;
    let status = within(router.client().await.generate(request("abc")))
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(
        status.message().contains("fake, other"),
        "{}",
        status.message()
    );
}

#[tokio::test]
async fn router_that_cannot_listen_says_which_option() {
    let mut config = RouterConfig::default();
    config.listen.worker = "127.0.0.1:0".into();
    let shutdown = spectrie_router::Shutdown::new();
    let error = spectrie_router::app::serve(config, |_| {}, shutdown)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("--worker-token-file"), "{error}");
}
