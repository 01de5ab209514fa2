//! Corpora, namespaces and snapshots as Python reads them.

use pyo3::prelude::*;
use spectrie_trie as trie;

use super::mirror::mirror;

mirror! {
    /// What is known of a corpus.
    pub(super) struct CorpusInfo of info: trie::CorpusInfo {
        name: String,
        num_tokens: u64,
        num_documents: u64,
        bytes: usize,
        readers: Option<Vec<String>> = match info.readers {
            trie::Readers::All => None,
            trie::Readers::Namespaces(names) => Some(names),
        },
        accepted_tokens: u64,
        lost_blocks: u64,
        first_loss: Option<String>,
    }
}

mirror! {
    /// What is known of a namespace.
    pub(super) struct NamespaceInfo of info: trie::NamespaceInfo {
        name: String,
        num_tokens: u64,
        bytes: usize,
        accepted_tokens: u64,
    }
}

mirror! {
    /// What a snapshot holds, and what saving or restoring it did.
    pub(super) struct SnapshotInfo of info: trie::SnapshotInfo {
        num_namespaces: usize,
        num_tokens: u64,
        bytes: usize,
        written_bytes: u64,
        damaged_runs: u64,
        damaged_tokens: u64,
        first_damage: Option<String>,
    }
}
