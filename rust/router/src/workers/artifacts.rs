//! The model's files that a worker brings, gathered from chunks and checked.

use std::collections::BTreeMap;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use spectrie_proto::worker_v1::ArtifactChunk;
use tonic::Status;

/// Largest sum of all files of one model: 64 MiB. A tokenizer.json is 2 to 20 MB.
const MAX_BYTES: usize = 64 << 20;
/// Files that the router has a use for.
const NAMES: [&str; 4] = [
    TOKENIZER,
    TOKENIZER_CONFIG,
    CHAT_TEMPLATE,
    GENERATION_CONFIG,
];

pub(crate) const TOKENIZER: &str = "tokenizer.json";
pub(crate) const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
pub(crate) const CHAT_TEMPLATE: &str = "chat_template.jinja";
pub(crate) const GENERATION_CONFIG: &str = "generation_config.json";

/// Files of one model by name.
#[derive(Debug, Default)]
pub(crate) struct Artifacts {
    open: BTreeMap<String, Vec<u8>>,
    files: BTreeMap<String, Bytes>,
    num_bytes: usize,
}

impl Artifacts {
    /// Adds a chunk.
    ///
    /// # Errors
    /// An unknown name, too many bytes, or a digest that does not fit.
    pub(crate) fn push(&mut self, chunk: &ArtifactChunk) -> Result<(), Status> {
        let name = chunk.name.as_str();
        if !NAMES.contains(&name) {
            let allowed = NAMES.join(", ");
            return Err(Status::invalid_argument(format!(
                "artifact {name:?} is unknown; allowed: {allowed}"
            )));
        }
        if self.files.contains_key(name) {
            return Err(Status::invalid_argument(format!(
                "artifact {name} came twice"
            )));
        }
        self.num_bytes += chunk.data.len();
        if self.num_bytes > MAX_BYTES {
            let message = format!("artifacts have more than {MAX_BYTES} bytes");
            return Err(Status::resource_exhausted(message));
        }
        let data = self.open.entry(name.to_owned()).or_default();
        data.extend_from_slice(&chunk.data);
        if let Some(expected) = &chunk.sha256 {
            let data = self.open.remove(name).unwrap_or_default();
            let actual = hex(&Sha256::digest(&data));
            if !actual.eq_ignore_ascii_case(expected) {
                return Err(Status::data_loss(format!(
                    "artifact {name} has sha256 {actual}, the worker announced {expected}"
                )));
            }
            self.files.insert(name.to_owned(), data.into());
        }
        Ok(())
    }

    /// Checks that every begun file was ended and that the tokenizer is there.
    ///
    /// # Errors
    /// Names what is missing.
    pub(crate) fn check_complete(&self) -> Result<(), Status> {
        if let Some(name) = self.open.keys().next() {
            let message = format!("artifact {name} ended without its sha256");
            return Err(Status::invalid_argument(message));
        }
        if !self.files.contains_key(TOKENIZER) {
            let message = format!("artifact {TOKENIZER} is missing");
            return Err(Status::invalid_argument(message));
        }
        Ok(())
    }

    /// Content of a file, if the worker brought it.
    pub(crate) fn get(&self, name: &str) -> Option<&[u8]> {
        self.files.get(name).map(AsRef::as_ref)
    }

    /// One digest over names and contents: equal digests are equal files.
    pub(crate) fn digest(&self) -> String {
        let mut hash = Sha256::new();
        for (name, data) in &self.files {
            hash.update(name.as_bytes());
            hash.update([0]);
            hash.update((data.len() as u64).to_le_bytes());
            hash.update(data);
        }
        hex(&hash.finalize())
    }
}

/// Lower-case hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(name: &str, data: &'static [u8], sha256: Option<&str>) -> ArtifactChunk {
        ArtifactChunk {
            name: name.into(),
            data: Bytes::from_static(data),
            sha256: sha256.map(Into::into),
        }
    }

    #[test]
    fn chunks_become_one_file_when_the_digest_fits() {
        let mut artifacts = Artifacts::default();
        artifacts.push(&chunk(TOKENIZER, b"ab", None)).unwrap();
        assert!(artifacts.check_complete().is_err());
        let digest = hex(&Sha256::digest(b"abc"));
        artifacts
            .push(&chunk(TOKENIZER, b"c", Some(&digest)))
            .unwrap();
        artifacts.check_complete().unwrap();
        assert_eq!(artifacts.get(TOKENIZER), Some(&b"abc"[..]));
    }

    #[test]
    fn wrong_digest_and_unknown_name_are_refused() {
        let mut artifacts = Artifacts::default();
        let status = artifacts
            .push(&chunk(TOKENIZER, b"ab", Some("00")))
            .unwrap_err();
        assert_eq!(status.code(), tonic::Code::DataLoss);
        let status = artifacts
            .push(&chunk("weights.bin", b"", None))
            .unwrap_err();
        assert!(
            status.message().contains("tokenizer.json"),
            "{}",
            status.message()
        );
    }
}
