//! Arbitrary bytes from the wire: no message, or a request that is resolved or refused by its fields.

use std::sync::LazyLock;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use prost::Message as _;
use spectrie_proto::v1;
use spectrie_proto::v1::generate_request::Prompt;
use spectrie_request::validate::check_request;
use spectrie_request::{Caller, Naming, RefusalKind, SamplingDefaults, resolve};
use spectrie_text::TextFiles;

use crate::support::{END_TOKEN, MAX_CONTEXT, files, model};

static FILES: LazyLock<TextFiles> = LazyLock::new(|| files(true));

/// Numbers on and beside the limits of fields.
fn number() -> impl Strategy<Value = u32> {
    prop_oneof![0..70_u32, 250..260_u32, any::<u32>(), Just(u32::MAX)]
}

fn real() -> impl Strategy<Value = f32> {
    prop_oneof![
        any::<f32>(),
        -3.0..3.0_f32,
        Just(f32::NAN),
        Just(f32::INFINITY)
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![".{0,20}", Just(String::new()), Just("x".repeat(300))]
}

fn prompt() -> impl Strategy<Value = Prompt> {
    let message = (text(), text()).prop_map(|(role, content)| v1::ChatMessage { role, content });
    prop_oneof![
        text().prop_map(Prompt::Text),
        vec(number(), 0..70).prop_map(|ids| Prompt::TokenIds(v1::TokenIds { ids })),
        vec(message, 0..4).prop_map(|messages| Prompt::Chat(v1::ChatPrompt {
            messages,
            ..Default::default()
        })),
    ]
}

fn request() -> impl Strategy<Value = v1::GenerateRequest> {
    let sampling = (
        proptest::option::of(real()),
        proptest::option::of(real()),
        proptest::option::of(number()),
        vec((number(), real()), 0..3),
        vec(text(), 0..3),
    );
    let sampling = sampling.prop_map(|(temperature, top_p, n, bias, bad_words)| v1::Sampling {
        temperature,
        top_p,
        n,
        logit_bias: bias.into_iter().collect(),
        bad_words,
        ..Default::default()
    });
    let stopping = (
        proptest::option::of(number()),
        proptest::option::of(number()),
        vec(text(), 0..4),
        vec(number(), 0..4),
    );
    let stopping = stopping.prop_map(|(max_tokens, min_tokens, stop, ids)| v1::Stopping {
        max_tokens,
        min_tokens,
        stop,
        stop_token_ids: ids,
        ..Default::default()
    });
    let names = (
        proptest::option::of(text()),
        proptest::option::of(text()),
        any::<Option<i32>>(),
    );
    let parts = (
        proptest::option::of(prompt()),
        proptest::option::of(sampling),
        proptest::option::of(stopping),
        names,
    );
    parts.prop_map(
        |(prompt, sampling, stopping, (model, namespace, priority))| v1::GenerateRequest {
            prompt,
            sampling,
            stopping,
            model,
            namespace,
            priority,
            ..Default::default()
        },
    )
}

/// A message's bytes with some changed, doubled or left out.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let change = (any::<Index>(), 0..3_u8, any::<u8>());
    (request(), vec(change, 0..6)).prop_map(|(request, changes)| {
        let mut bytes = request.encode_to_vec();
        for (at, kind, with) in changes {
            if bytes.is_empty() {
                break;
            }
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

fn is_resolved_or_refused(bytes: &[u8]) {
    let Ok(request) = v1::GenerateRequest::decode(bytes) else {
        return;
    };
    let violations = check_request(&request, Some(END_TOKEN + 1));
    if !violations.is_empty() {
        assert!(
            violations.iter().all(|one| !one.field.is_empty()),
            "{violations:?}"
        );
        return;
    }
    let defaults = SamplingDefaults::default();
    let caller = Caller {
        tenant: None,
        naming: Naming::Refused,
    };
    match resolve("r".into(), request, model(&FILES, &defaults), caller) {
        Ok(request) => {
            assert!(request.needs_context() <= MAX_CONTEXT);
            assert!(!request.prompt_ids.is_empty() && (1..=8).contains(&request.num_choices));
            assert!(request.sampling.temperature.is_finite());
        }
        Err(refusal) => assert!(
            refusal.kind != RefusalKind::InvalidField || !refusal.violations.is_empty(),
            "{refusal:?}"
        ),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn any_message_is_resolved_or_refused_by_its_fields(bytes in damaged()) {
        is_resolved_or_refused(&bytes);
    }

    #[test]
    fn any_bytes_are_no_message_or_one_that_is_resolved_or_refused(bytes in vec(any::<u8>(), 0..200)) {
        is_resolved_or_refused(&bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 1_000_000, ..ProptestConfig::default() })]

    #[test]
    #[ignore = "deep: a million inputs"]
    fn any_of_a_million_messages_is_resolved_or_refused(bytes in damaged()) {
        is_resolved_or_refused(&bytes);
    }
}
