//! What a snapshot holds.

use crate::namespaces::snapshot::file::SavedNamespace;

/// What a snapshot holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// Namespaces with text.
    pub num_namespaces: usize,
    /// Tokens of their text.
    pub num_tokens: u64,
    /// Bytes of the file.
    pub bytes: usize,
}

impl SnapshotInfo {
    /// What a file of `bytes` holds with `saved`.
    pub(super) fn new(saved: &[SavedNamespace], bytes: usize) -> Self {
        let segments = saved.iter().flat_map(|namespace| &namespace.segments);
        Self {
            num_namespaces: saved.len(),
            num_tokens: segments
                .map(|segment| u64::from(segment.shape.num_tokens))
                .sum(),
            bytes,
        }
    }
}
