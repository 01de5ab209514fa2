//! The files of a fake worker's model, as a worker sends them.

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use spectrie_proto::worker_v1::{ArtifactChunk, worker_message::Message};

use super::byte_tokenizer::{CHAT_TEMPLATE, tokenizer_json};

/// Each file in two parts.
pub fn artifacts() -> Vec<Message> {
    let mut messages = Vec::new();
    for (name, data) in [
        ("tokenizer.json", tokenizer_json()),
        ("chat_template.jinja", CHAT_TEMPLATE.into()),
        (
            "generation_config.json",
            r#"{"temperature": 0.5, "top_k": 40}"#.into(),
        ),
    ] {
        let (first, second) = data.as_bytes().split_at(data.len() / 2);
        let chunk = |data: &[u8], sha256| {
            let data = Bytes::copy_from_slice(data);
            Message::Artifact(ArtifactChunk {
                name: name.into(),
                data,
                sha256,
            })
        };
        let digest = format!("{:x}", Sha256::digest(data.as_bytes()));
        messages.push(chunk(first, None));
        messages.push(chunk(second, Some(digest)));
    }
    messages
}
