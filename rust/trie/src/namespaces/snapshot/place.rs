//! The path of a snapshot and the tokenizer that it belongs to.

use std::path::{Path, PathBuf};

/// Name of a snapshot in its folder.
const FILE_NAME: &str = "memory.snapshot";

/// The path of a snapshot and the tokenizer that it belongs to.
#[derive(Debug)]
pub(crate) struct SnapshotPlace {
    pub(crate) path: PathBuf,
    pub(crate) fingerprint: String,
}

impl SnapshotPlace {
    /// The place of the snapshot in `folder`.
    pub(crate) fn new(folder: &Path, fingerprint: &str) -> Self {
        Self {
            path: folder.join(FILE_NAME),
            fingerprint: fingerprint.to_owned(),
        }
    }
}
