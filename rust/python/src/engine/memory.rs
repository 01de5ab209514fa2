//! Corpora, namespaces and snapshots as Python reads them.

use pyo3::prelude::*;
use spectrie_trie as trie;

/// What is known of a corpus.
#[pyclass(frozen, get_all, name = "CorpusInfo", module = "spectrie._core")]
pub(super) struct CorpusInfo {
    name: String,
    num_tokens: u64,
    num_documents: u64,
    bytes: usize,
    readers: Option<Vec<String>>,
    accepted_tokens: u64,
}

impl CorpusInfo {
    pub(super) fn new(info: trie::CorpusInfo) -> Self {
        Self {
            name: info.name,
            num_tokens: info.num_tokens,
            num_documents: info.num_documents,
            bytes: info.bytes,
            readers: match info.readers {
                trie::Readers::All => None,
                trie::Readers::Namespaces(names) => Some(names),
            },
            accepted_tokens: info.accepted_tokens,
        }
    }
}

/// What is known of a namespace.
#[pyclass(frozen, get_all, name = "NamespaceInfo", module = "spectrie._core")]
pub(super) struct NamespaceInfo {
    name: String,
    num_tokens: u64,
    bytes: usize,
    accepted_tokens: u64,
}

impl NamespaceInfo {
    pub(super) fn new(info: trie::NamespaceInfo) -> Self {
        Self {
            name: info.name,
            num_tokens: info.num_tokens,
            bytes: info.bytes,
            accepted_tokens: info.accepted_tokens,
        }
    }
}

/// What a snapshot holds.
#[pyclass(frozen, get_all, name = "SnapshotInfo", module = "spectrie._core")]
pub(super) struct SnapshotInfo {
    num_namespaces: usize,
    num_tokens: u64,
    bytes: usize,
}

impl SnapshotInfo {
    pub(super) fn new(info: trie::SnapshotInfo) -> Self {
        Self {
            num_namespaces: info.num_namespaces,
            num_tokens: info.num_tokens,
            bytes: info.bytes,
        }
    }
}
