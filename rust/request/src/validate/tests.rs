//! Whole requests, good and bad.

use spectrie_proto::v1;
use spectrie_types::limits::MAX_NAME_BYTES;

use super::check_request;
use crate::Violation;

fn request() -> v1::GenerateRequest {
    v1::GenerateRequest {
        prompt: Some(v1::generate_request::Prompt::Text("hello".into())),
        ..Default::default()
    }
}

fn fields(violations: &[Violation]) -> Vec<&str> {
    violations
        .iter()
        .map(|violation| violation.field.as_str())
        .collect()
}

#[test]
fn request_with_a_prompt_alone_is_allowed() {
    assert_eq!(check_request(&request(), None), []);
}

#[test]
fn all_violations_are_gathered() {
    let mut bad = request();
    bad.sampling = Some(v1::Sampling {
        temperature: Some(f32::NAN),
        top_p: Some(0.0),
        n: Some(9),
        ..Default::default()
    });
    bad.stopping = Some(v1::Stopping {
        max_tokens: Some(0),
        ..Default::default()
    });
    let violations = check_request(&bad, None);
    assert_eq!(
        fields(&violations),
        [
            "sampling.temperature",
            "sampling.top_p",
            "sampling.n",
            "stopping.max_tokens"
        ]
    );
    assert_eq!(violations[2].message, "given 9; allowed: 1 to 8");
}

#[test]
fn token_ids_are_checked_against_the_vocabulary() {
    let mut bad = request();
    bad.prompt = Some(v1::generate_request::Prompt::TokenIds(v1::TokenIds {
        ids: vec![0, 9, 10],
    }));
    bad.stopping = Some(v1::Stopping {
        stop_token_ids: vec![u32::MAX],
        ..Default::default()
    });
    let violations = check_request(&bad, Some(10));
    assert_eq!(
        fields(&violations),
        ["token_ids.ids[2]", "stopping.stop_token_ids[0]"]
    );
    assert_eq!(violations[0].message, "given token id 10; allowed: 0 to 9");
}

#[test]
fn names_are_printable_and_bounded() {
    let mut bad = request();
    bad.request_id = Some("a b".into());
    bad.namespace = Some("x".repeat(MAX_NAME_BYTES + 1));
    assert_eq!(
        fields(&check_request(&bad, None)),
        ["request_id", "namespace"]
    );
}

#[test]
fn prediction_needs_content_and_mode_a_known_number() {
    let mut bad = request();
    bad.speculation = Some(v1::Speculation {
        mode: 100,
        max_draft_tokens: Some(64),
        prediction: Some(v1::Prediction { content: None }),
        ..Default::default()
    });
    assert_eq!(
        fields(&check_request(&bad, None)),
        [
            "speculation.max_draft_tokens",
            "speculation.mode",
            "speculation.prediction"
        ]
    );
}

#[test]
fn a_request_with_millions_of_faults_names_a_few() {
    let message = v1::ChatMessage::default();
    let mut bad = request();
    bad.prompt = Some(v1::generate_request::Prompt::Chat(v1::ChatPrompt {
        messages: vec![message; 2_000_000],
        ..Default::default()
    }));
    let found = check_request(&bad, None);
    assert_eq!(
        found[0].message,
        "given 2000000 messages; allowed: 1 to 2048"
    );
    assert_eq!(found.len(), 32);
    let last = found.last().unwrap();
    assert_eq!(last.field, "chat.messages[30].role");
    assert_eq!(
        last.message,
        "given 0 bytes; allowed: 1 to 128; 2017 more are wrong"
    );
}
