//! The contents of a snapshot in numbers.

use crate::namespaces::snapshot::file::SavedNamespace;

/// The contents of a snapshot in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// Number of namespaces with text.
    pub num_namespaces: usize,
    /// Number of tokens of their text.
    pub num_tokens: u64,
    /// Size of the file in bytes.
    pub bytes: usize,
}

impl SnapshotInfo {
    /// The numbers of a file of `bytes` that holds `saved`.
    pub(super) fn new(saved: &[SavedNamespace], bytes: usize) -> Self {
        let blocks = saved.iter().flat_map(|namespace| &namespace.blocks);
        Self {
            num_namespaces: saved.len(),
            num_tokens: blocks.map(|block| u64::from(block.shape.num_tokens)).sum(),
            bytes,
        }
    }
}
