//! A model without weights: the next token is a hash of seed and position.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use spectrie_proto::worker_v1::{ArtifactChunk, Capacity, Hello};

use super::byte_tokenizer::tokenizer_json;
use super::dice::mix;
use crate::workers::{Artifacts, ServedModel, TOKENIZER};

/// The token at `position` of the answer that `seed` decides.
pub(super) fn token(seed: u64, position: usize) -> u32 {
    (mix(seed ^ mix(position as u64 + 1)) % 256) as u32
}

/// The whole answer, undisturbed.
pub(super) fn answer(seed: u64, num_tokens: usize) -> Vec<u32> {
    (0..num_tokens)
        .map(|position| token(seed, position))
        .collect()
}

/// What a worker of numeric fingerprint `fingerprint` says first.
pub(super) fn hello(fingerprint: &str) -> Hello {
    Hello {
        model: "m".into(),
        model_hash: "h".into(),
        numeric_fingerprint: fingerprint.into(),
        vocabulary_size: 257,
        capacity: Some(Capacity {
            max_context: 512,
            max_running: 4,
            num_pages: 512,
            page_size: 16,
            max_draft_tokens: 0,
        }),
        ..Default::default()
    }
}

/// The text side of the model, built once.
pub(super) fn served() -> Arc<ServedModel> {
    static SERVED: OnceLock<Arc<ServedModel>> = OnceLock::new();
    let build = || {
        let file = tokenizer_json();
        let mut artifacts = Artifacts::default();
        let chunk = ArtifactChunk {
            name: TOKENIZER.into(),
            sha256: Some(format!("{:x}", Sha256::digest(file.as_bytes()))),
            data: Bytes::from(file),
        };
        artifacts.push(&chunk).unwrap();
        let digest = artifacts.digest();
        Arc::new(ServedModel::build(&hello("a"), &artifacts, digest).unwrap())
    };
    SERVED.get_or_init(build).clone()
}
