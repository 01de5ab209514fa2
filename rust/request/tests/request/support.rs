//! A model without weights: its tokenizer's tokens are single bytes, and the end.

use spectrie_proto::v1;
use spectrie_proto::v1::generate_request::Prompt;
use spectrie_request::{Caller, Model, Refusal, ResolvedRequest, SamplingDefaults, resolve};
use spectrie_text::TextFiles;

/// The token that ends an answer.
pub(crate) const END_TOKEN: u32 = 256;
/// Longest prompt plus answer.
pub(crate) const MAX_CONTEXT: u32 = 64;

const CHAT_TEMPLATE: &str = "{% for message in messages %}{% if message['role'] == 'robot' %}\
    {{ raise_exception('robots may not speak') }}{% endif %}\
    {{ message['role'] + ': ' + message['content'] + '\n' }}{% endfor %}\
    {% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}";

/// Tokenizer and, when asked for, a chat template.
pub(crate) fn files(with_template: bool) -> TextFiles {
    let template = with_template.then_some(CHAT_TEMPLATE.as_bytes());
    TextFiles::from_bytes(tokenizer_json().as_bytes(), None, template).unwrap()
}

/// The model of `files`.
pub(crate) fn model<'a>(files: &'a TextFiles, defaults: &'a SamplingDefaults) -> Model<'a> {
    Model {
        name: "bytes",
        vocabulary_size: END_TOKEN + 1,
        max_context: MAX_CONTEXT,
        text: files,
        defaults,
    }
}

/// A request of a text.
pub(crate) fn text(text: &str) -> v1::GenerateRequest {
    v1::GenerateRequest {
        prompt: Some(Prompt::Text(text.into())),
        ..Default::default()
    }
}

/// Resolves a request of a caller without a key.
pub(crate) fn resolved(request: v1::GenerateRequest) -> Result<ResolvedRequest, Refusal> {
    let (files, defaults) = (files(true), SamplingDefaults::default());
    let caller = Caller {
        tenant: None,
        may_name_namespace: false,
    };
    resolve("r".into(), request, model(&files, &defaults), caller)
}

fn tokenizer_json() -> String {
    let mut vocabulary = serde_json::Map::new();
    let mut next = 0;
    for byte in 0..=255u8 {
        let is_printable = matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
        // The byte-level alphabet: bytes that do not print take the letters from 256 on.
        let letter = if is_printable {
            char::from(byte)
        } else {
            next += 1;
            char::from_u32(255 + next).unwrap()
        };
        vocabulary.insert(letter.to_string(), u32::from(byte).into());
    }
    let byte_level = serde_json::json!({
        "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false
    });
    serde_json::json!({
        "version": "1.0",
        "added_tokens": [{
            "id": END_TOKEN, "content": "<|end|>", "single_word": false, "lstrip": false,
            "rstrip": false, "normalized": false, "special": true
        }],
        "pre_tokenizer": byte_level,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []}
    })
    .to_string()
}
