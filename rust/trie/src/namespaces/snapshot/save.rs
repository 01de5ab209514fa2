//! Saving the text of namespaces while it is used.

use std::fs;
use std::io::{self, Write};
use std::sync::Arc;

use crate::TrieError;
use crate::namespaces::shared_trie::SharedTrie;
use crate::namespaces::snapshot::file::{self, SavedBlock, SavedNamespace};
use crate::namespaces::snapshot::info::SnapshotInfo;
use crate::namespaces::snapshot::place::SnapshotPlace;
use crate::store::atomic_file::{self, Access, Checked};

/// Saves the text of `tries`, the one idle longest first.
pub(crate) fn save(
    place: &SnapshotPlace,
    tries: &[Arc<SharedTrie>],
) -> Result<SnapshotInfo, TrieError> {
    let SnapshotPlace { path, fingerprint } = place;
    atomic_file::remove_partials(path);
    let mut saved = Vec::new();
    let bytes = atomic_file::replace(path, Access::Private, |writer| {
        saved = write(writer, tries, fingerprint)?;
        Ok(())
    })?;
    Ok(SnapshotInfo::new(&saved, bytes))
}

/// Saves where a snapshot is, so that it no longer holds what was forgotten.
pub(crate) fn save_again(place: &SnapshotPlace, tries: &[Arc<SharedTrie>]) {
    if place.path.exists() && save(place, tries).is_err() {
        // A cold start is better than text that was to be forgotten.
        let _ = fs::remove_file(&place.path);
    }
}

/// Writes the text of `tries` with its index, and returns a summary.
pub(super) fn write<W: Write>(
    writer: &mut Checked<W>,
    tries: &[Arc<SharedTrie>],
    fingerprint: &str,
) -> io::Result<Vec<SavedNamespace>> {
    file::write_header(writer, fingerprint)?;
    let mut saved = Vec::new();
    for shared in tries {
        let mut blocks = Vec::new();
        for block in shared.view().blocks() {
            let offset = writer.bytes() as u64;
            let shape = block.save(writer)?;
            blocks.push(SavedBlock { offset, shape });
        }
        if !blocks.is_empty() {
            saved.push(SavedNamespace {
                name: shared.name().to_owned(),
                accepted_tokens: shared.accepted_tokens(),
                blocks,
            });
        }
    }
    file::write_index(writer, &saved)?;
    Ok(saved)
}
