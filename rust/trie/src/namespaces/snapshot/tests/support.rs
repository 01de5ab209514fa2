//! Memories on a disk in memory, and what is in them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::testing::memory_disk::MemoryDisk;
use crate::{DraftConfig, DraftMemory, Drafter, MemoryConfig, SharedTrie, TokenId};

pub(super) const ROOT: &str = "/state";
pub(super) const TOKENIZER: &str = "abc";
pub(super) const MAX_NAMESPACES: usize = 4;

/// A memory of so many bytes that is saved to `disk`.
pub(super) fn memory(disk: &Arc<MemoryDisk>, capacity_bytes: usize) -> DraftMemory {
    let disk = Arc::clone(disk);
    let config = MemoryConfig {
        capacity_bytes,
        max_namespaces: MAX_NAMESPACES,
    };
    DraftMemory::on_disk(config, disk).unwrap()
}

pub(super) fn save(memory: &DraftMemory) -> crate::SnapshotInfo {
    memory.save(Path::new(ROOT), TOKENIZER).unwrap()
}

/// A file of the snapshot.
pub(super) fn path(name: &str) -> PathBuf {
    Path::new(ROOT)
        .join(format!("memory-{TOKENIZER}"))
        .join(name)
}

/// Drafts after `context` from `shared`: the tokens of the tree with those before them.
pub(super) fn pairs(shared: &Arc<SharedTrie>, context: &[TokenId]) -> Vec<(TokenId, TokenId)> {
    let config = DraftConfig {
        hints: false,
        ..DraftConfig::default()
    };
    let mut drafter = Drafter::new(config, Some(Arc::clone(shared)));
    drafter.push_prompt(context);
    let tree = drafter.draft(16, 0.0);
    let last = context[context.len() - 1];
    let nodes = tree.nodes.iter().map(|node| {
        let parent = node.parent.map(|parent| tree.nodes[parent as usize].token);
        (parent.unwrap_or(last), node.token)
    });
    nodes.collect()
}
