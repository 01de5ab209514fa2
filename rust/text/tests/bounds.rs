//! Texts that are too long are refused without tokenizing all of them, and no others.

#![allow(clippy::unwrap_used)] // helpers of tests fail by panicking

mod common;

use proptest::prelude::*;
use serde_json::{Value, json};
use spectrie_text::{TextError, Tokenizer};

/// Byte-level BPE whose longest token is 64 spaces, after `normalizer`, with an end token that takes
/// the white space behind it where `rstrip`.
fn spaces(normalizer: &Value, rstrip: bool) -> Tokenizer {
    let mut tokens: Vec<String> = (0..=255_u32)
        .map(|byte| common::byte_char(byte).to_string())
        .collect();
    let mut merges = Vec::new();
    let space = common::byte_char(32).to_string();
    for power in 0..6 {
        let half = space.repeat(1 << power);
        merges.push(format!("{half} {half}"));
        tokens.push(half.repeat(2));
    }
    let end = tokens.len();
    tokens.push("<end>".into());
    let added = json!([{"id": end, "content": "<end>", "single_word": false, "lstrip": false,
        "rstrip": rstrip, "normalized": false, "special": true}]);
    let splitter = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
        "use_regex": false});
    let bytes = common::tokenizer_json(&tokens, &added, &splitter, &splitter);
    let mut contents: Value = serde_json::from_slice(&bytes).unwrap();
    contents["normalizer"] = normalizer.clone();
    contents["model"]["merges"] = json!(merges);
    Tokenizer::from_bytes(contents.to_string().as_bytes()).unwrap()
}

fn tokenizers() -> Vec<(&'static str, Tokenizer)> {
    let strip = json!({"type": "Strip", "strip_left": true, "strip_right": true});
    vec![
        ("byte level", common::byte_level()),
        ("byte fallback", common::byte_fallback()),
        ("metaspace", common::metaspace()),
        ("spaced", common::spaced()),
        ("spaces", spaces(&Value::Null, false)),
        ("composed", spaces(&json!({"type": "NFC"}), false)),
        ("taking spaces", spaces(&Value::Null, true)),
        ("stripped", spaces(&strip, false)),
    ]
}

/// Texts of the kinds that tokenizers shorten: white space, parts of characters, unknown ones.
fn piece() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just(" "),
        Just("e\u{301}"),
        Just("<end>"),
        Just("<|end|>"),
        Just(" the"),
        Just("中文"),
        Just("🙂"),
        Just("\n"),
        Just("x"),
    ];
    (part, 1..200_usize).prop_map(|(part, count)| part.repeat(count))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn no_text_that_fits_is_refused(
        pieces in proptest::collection::vec(piece(), 1..6),
        times in 1..400_usize,
        room in 0..3_usize,
    ) {
        let mut text = pieces.concat().repeat(times);
        let mut end = text.len().min(140_000);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        for (name, tokenizer) in tokenizers() {
            let ids = tokenizer.encode(&text, false).unwrap();
            let limit = ids.len() + room;
            let within = tokenizer.encode_within(&text, false, limit);
            prop_assert_eq!(within.unwrap(), ids, "{}", name);
        }
    }

    #[test]
    fn no_text_of_ids_is_longer_than_they_say(ids in proptest::collection::vec(0..280_u32, 1..40)) {
        for (name, tokenizer) in tokenizers() {
            for skips_special in [false, true] {
                let text = tokenizer.decode(&ids, skips_special).unwrap();
                prop_assert!(text.len() <= tokenizer.most_bytes(&ids), "{}: {:?}", name, text);
            }
        }
    }
}

#[test]
fn text_that_is_far_too_long_is_refused_by_every_kind_of_tokenizer() {
    for (name, tokenizer) in tokenizers() {
        for word in ["a", "END ", "a ", "é"] {
            let text = word.repeat(1 << 20);
            if tokenizer.encode(&text[..1024], false).unwrap().len() < 256 {
                // What a vocabulary does not know has no tokens.
                continue;
            }
            let error = tokenizer.encode_within(&text, false, 2047).unwrap_err();
            let expected = "the text has more than 2047 tokens";
            assert!(
                matches!(error, TextError::TooLong { limit: 2047 }),
                "{name}"
            );
            assert_eq!(error.to_string(), expected);
        }
    }
}

#[test]
fn white_space_that_a_token_takes_is_not_counted() {
    let tokenizer = spaces(&Value::Null, true);
    let text = format!("<end>{}a", " ".repeat(1 << 20));
    assert_eq!(tokenizer.encode_within(&text, false, 10).unwrap().len(), 2);
}
