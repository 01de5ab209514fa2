//! Reading tokenizers and model files.

#![allow(clippy::unwrap_used)] // helpers of tests fail by panicking

mod common;

use serde_json::{Value, json};
use spectrie_text::{TemplateOptions, TextError, TextFiles, Tokenizer};

#[test]
fn text_survives_encoding_and_decoding() {
    let tokenizer = common::byte_level();
    let text = "the é中文🙂\r\n\tthe  END";
    let ids = tokenizer.encode(text, false).unwrap();
    assert_eq!(tokenizer.decode(&ids, true).unwrap(), text);
    let bytes: Vec<u8> = ids
        .iter()
        .flat_map(|&id| tokenizer.token_bytes(id).unwrap())
        .collect();
    assert_eq!(bytes, text.as_bytes());
    assert_eq!(tokenizer.vocabulary_size(), 266);
    assert_eq!(tokenizer.token_bytes(266), None);
}

#[test]
fn truncation_and_padding_of_the_file_are_ignored() {
    let mut contents: Value = serde_json::from_slice(&plain()).unwrap();
    contents["truncation"] =
        json!({"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0});
    contents["padding"] = json!({"strategy": {"Fixed": 8}, "direction": "Right", "pad_to_multiple_of": null,
        "pad_id": 0, "pad_type_id": 0, "pad_token": "a"});
    let tokenizer = Tokenizer::from_bytes(contents.to_string().as_bytes()).unwrap();
    assert_eq!(tokenizer.encode("abab", false).unwrap(), [0, 1, 0, 1]);
}

#[test]
fn bytes_that_are_no_tokenizer_are_refused() {
    for bytes in [&b""[..], b"{", b"{}", b"\xff\xfe", b"[1, 2]"] {
        let error = Tokenizer::from_bytes(bytes).unwrap_err();
        assert!(
            matches!(error, TextError::InvalidTokenizer { .. }),
            "{error}"
        );
    }
}

#[test]
fn a_decoder_that_needs_the_whole_text_is_refused_by_name() {
    let decoder = json!({"type": "WordPiece", "prefix": "##", "cleanup": true});
    let tokens = ["a".to_owned()];
    let bytes = common::tokenizer_json(&tokens, &json!([]), &Value::Null, &decoder);
    let error = Tokenizer::from_bytes(&bytes).unwrap_err();
    assert!(error.to_string().contains("WordPiece"), "{error}");
}

#[test]
fn the_template_of_the_configuration_serves_when_there_is_no_file() {
    let config = json!({
        "bos_token": {"content": "<s>", "lstrip": false},
        "chat_template": [{"name": "tool_use", "template": "no"}, {"name": "default", "template": "{{ bos_token }}!"}],
    });
    let config = config.to_string().into_bytes();
    let files = TextFiles::from_bytes(&plain(), Some(&config), None).unwrap();
    let none: [(); 0] = [];
    let template = files.template.unwrap();
    assert_eq!(
        template.render(&none, &TemplateOptions::default()).unwrap(),
        "<s>!"
    );

    let files = TextFiles::from_bytes(&plain(), Some(&config), Some(b"file")).unwrap();
    assert_eq!(
        files
            .template
            .unwrap()
            .render(&none, &TemplateOptions::default())
            .unwrap(),
        "file"
    );
}

#[test]
fn a_missing_folder_is_an_error_with_its_path() {
    let error = TextFiles::from_folder("/nonexistent/model".as_ref()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("/nonexistent/model/tokenizer.json"),
        "{error}"
    );
}

#[test]
fn a_damaged_configuration_is_an_error_with_its_name() {
    let error = TextFiles::from_bytes(&plain(), Some(b"{"), None).unwrap_err();
    assert!(
        error.to_string().contains("tokenizer_config.json"),
        "{error}"
    );
}

fn plain() -> Vec<u8> {
    let tokens = ["a", "b"].map(str::to_owned);
    common::tokenizer_json(&tokens, &json!([]), &Value::Null, &Value::Null)
}
