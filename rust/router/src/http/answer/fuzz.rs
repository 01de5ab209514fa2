//! Arbitrary answers: whatever their text, the stream is whole events, and a client gets the text as it was.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::string::string_regex;
use serde_json::Value;
use spectrie_proto::v1;

use super::response::Identity;
use super::sse::Encoder;
use super::usage::Totals;
use crate::http::convert::{Endpoint, Extras};

/// Number of choices of each answer.
const CHOICES: u32 = 3;

/// Text that could end a line, an event or a JSON string if it were not escaped.
fn text() -> impl Strategy<Value = String> {
    // Read once: a pattern that is given as a string is read again for each value.
    let line = string_regex(".{0,8}").unwrap();
    let part = prop_oneof![
        Just("\n\n".to_owned()),
        Just("\r\n".to_owned()),
        Just("data: [DONE]\n\n".to_owned()),
        Just("\\\"}".to_owned()),
        Just("\u{2028}\u{0}\u{feff}".to_owned()),
        line,
        vec(any::<char>(), 0..8).prop_map(|chars| chars.into_iter().collect()),
    ];
    vec(part, 0..4).prop_map(|parts| parts.concat())
}

#[derive(Debug)]
struct Case {
    endpoint: Endpoint,
    extras: Extras,
    is_resumable: bool,
    deltas: Vec<(u32, String)>,
    model: String,
}

fn case() -> impl Strategy<Value = Case> {
    let deltas = vec((0..CHOICES, text()), 0..8);
    (any::<[bool; 5]>(), deltas, text()).prop_map(|(flags, deltas, model)| Case {
        endpoint: if flags[0] {
            Endpoint::Chat
        } else {
            Endpoint::Completions
        },
        extras: Extras {
            include_usage: flags[1],
            return_token_ids: flags[2],
            report_speculation: flags[3],
            ..Extras::default()
        },
        is_resumable: flags[4],
        deltas,
        model,
    })
}

/// Every byte that the encoder writes of a case.
fn encoded(case: &Case) -> Vec<u8> {
    let identity = Identity {
        endpoint: case.endpoint,
        id: "cmpl-1".into(),
        created: 5,
        model: case.model.clone(),
        system_fingerprint: None,
    };
    let mut encoder = Encoder::new(identity, case.extras);
    if case.is_resumable {
        encoder = encoder.resumable("secret".into(), CHOICES);
    }
    let mut bytes = Vec::new();
    let mut positions = [0; CHOICES as usize];
    for (index, text) in &case.deltas {
        let position = &mut positions[*index as usize];
        *position += 1;
        let delta = v1::Delta {
            index: *index,
            text: text.clone(),
            token_ids: vec![3],
            position: *position,
            ..Default::default()
        };
        bytes.extend(encoder.delta(*index, &delta));
    }
    bytes.extend(encoder.done(&Totals::new("r")));
    bytes
}

/// The data of each event, read as the standard says.
fn events(bytes: &[u8]) -> Vec<String> {
    let text = std::str::from_utf8(bytes).unwrap();
    let (mut events, mut data) = (Vec::new(), None);
    for line in text.split(['\n', '\r']) {
        if line.is_empty() {
            events.extend(data.take());
        } else if let Some(rest) = line.strip_prefix("data: ") {
            assert_eq!(
                data.replace(rest.to_owned()),
                None,
                "one line of data an event"
            );
        } else {
            assert!(line.starts_with("id: "), "{line:?}");
        }
    }
    assert_eq!(data, None, "the last event is whole");
    events
}

fn arrives_as_it_was(case: &Case) {
    let mut events = events(&encoded(case));
    assert_eq!(events.pop().as_deref(), Some("[DONE]"));
    let mut texts = vec![String::new(); CHOICES as usize];
    for event in events {
        let event: Value = serde_json::from_str(&event).unwrap();
        assert_eq!(event["model"], case.model.as_str());
        for choice in event["choices"].as_array().unwrap() {
            let index = usize::try_from(choice["index"].as_u64().unwrap()).unwrap();
            let text = match case.endpoint {
                Endpoint::Chat => &choice["delta"]["content"],
                Endpoint::Completions => &choice["text"],
            };
            texts[index] += text.as_str().unwrap_or_default();
        }
    }
    for (index, text) in (0..).zip(texts) {
        let sent = case.deltas.iter().filter(|(of, _)| *of == index);
        assert_eq!(
            text,
            sent.map(|(_, text)| text.as_str()).collect::<String>()
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn any_answer_arrives_as_it_was(case in case()) {
        arrives_as_it_was(&case);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 1_000_000, ..ProptestConfig::default() })]

    #[test]
    #[ignore = "deep: a million inputs"]
    fn any_of_a_million_answers_arrives_as_it_was(case in case()) {
        arrives_as_it_was(&case);
    }
}
