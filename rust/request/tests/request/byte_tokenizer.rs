//! A tokenizer whose tokens are single bytes and the end, and a chat template; for the router's tests, too.

/// End of sequence; ids below it are bytes.
pub(crate) const END_TOKEN: u32 = 256;

/// Names each message's role; lets no robot speak.
pub(crate) const CHAT_TEMPLATE: &str = "{% for message in messages %}{% if message['role'] == 'robot' %}\
    {{ raise_exception('robots may not speak') }}{% endif %}\
    {{ message['role'] + ': ' + message['content'] + '\n' }}{% endfor %}\
    {% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}";

/// Its file.
pub(crate) fn tokenizer_json() -> String {
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
