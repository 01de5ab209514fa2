//! Small tokenizers, one per way of turning tokens into text.

#![allow(dead_code, clippy::unwrap_used)] // each test file uses some of these helpers

use serde_json::{Value, json};
use spectrie_text::Tokenizer;

/// Byte-level BPE: every byte, some words, parts of characters, and two special tokens.
pub(crate) fn byte_level() -> Tokenizer {
    let mut tokens: Vec<String> = (0u32..=255)
        .map(|byte| byte_char(byte).to_string())
        .collect();
    for bytes in [
        " the".as_bytes(),
        b"END",
        b"ND",
        "é".as_bytes(),
        "中文".as_bytes(),
        &[0xf0, 0x9f],
        &[0x99, 0x82, b'a'],
        b"\r\n",
    ] {
        tokens.push(bytes.iter().map(|&byte| byte_char(byte.into())).collect());
    }
    let count = tokens.len();
    tokens.extend(["<|end|>".to_owned(), "<|user|>".to_owned()]);
    let added = json!([
        added(count, "<|end|>", true),
        added(count + 1, "<|user|>", false)
    ]);
    let decoder = json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true});
    let splitter = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    build(&tokens, &added, &splitter, &decoder)
}

/// The way of Llama 2 and Mistral: `▁` for a space, byte tokens, one leading space cut.
pub(crate) fn byte_fallback() -> Tokenizer {
    let mut tokens: Vec<String> = ["<unk>", "<s>", "</s>"].map(str::to_owned).to_vec();
    tokens.extend((0..=255).map(|byte| format!("<0x{byte:02X}>")));
    tokens.extend(["▁", "▁the", "a", "E", "ND", "é", "▁▁"].map(str::to_owned));
    let added = json!([
        added(0, "<unk>", true),
        added(1, "<s>", true),
        added(2, "</s>", true)
    ]);
    let decoder = json!({"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ]});
    build(&tokens, &added, &Value::Null, &decoder)
}

/// `▁` for a space, left out at the beginning.
pub(crate) fn metaspace() -> Tokenizer {
    let tokens = ["▁the", "▁", "a", "▁b▁c", "E", "ND"].map(str::to_owned);
    let decoder =
        json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true});
    build(&tokens, &json!([]), &Value::Null, &decoder)
}

/// No decoder: tokens with a space between.
pub(crate) fn spaced() -> Tokenizer {
    let tokens = ["a", "E", "ND", "é", "end"].map(str::to_owned);
    build(&tokens, &json!([]), &Value::Null, &Value::Null)
}

/// The bytes of a tokenizer.json.
pub(crate) fn tokenizer_json(
    tokens: &[String],
    added: &Value,
    splitter: &Value,
    decoder: &Value,
) -> Vec<u8> {
    let vocabulary: serde_json::Map<String, Value> = tokens
        .iter()
        .enumerate()
        .map(|(id, token)| (token.clone(), json!(id)))
        .collect();
    let contents = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": null, "pre_tokenizer": splitter, "post_processor": null, "decoder": decoder,
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
            "vocab": vocabulary, "merges": []},
    });
    contents.to_string().into_bytes()
}

fn build(tokens: &[String], added: &Value, splitter: &Value, decoder: &Value) -> Tokenizer {
    Tokenizer::from_bytes(&tokenizer_json(tokens, added, splitter, decoder)).unwrap()
}

fn added(id: usize, content: &str, special: bool) -> Value {
    json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": false, "special": special})
}

/// GPT-2's character for a byte, by its published construction.
pub(crate) fn byte_char(byte: u32) -> char {
    let printable = |b: u32| matches!(b, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let code = if printable(byte) {
        byte
    } else {
        256 + (0..byte).filter(|&b| !printable(b)).count() as u32
    };
    char::from_u32(code).unwrap()
}
