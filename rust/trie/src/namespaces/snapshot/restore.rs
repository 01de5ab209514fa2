//! What a snapshot gives back to memory, and what is said of the rest.

use std::collections::BTreeSet;
use std::io;

use crate::TrieError;
use crate::budget::pool::Pool;
use crate::namespaces::snapshot::folder::{Found, SnapshotFolder};
use crate::namespaces::snapshot::info::SnapshotInfo;
use crate::namespaces::snapshot::load::{
    Loaded, LoadedNamespace, PartedBlock, fit, has_header, read_blocks, read_parted,
};
use crate::namespaces::snapshot::manifest::Manifest;
use crate::namespaces::snapshot::run::Run;
use crate::namespaces::snapshot::save::RunsOfBlocks;
use crate::namespaces::snapshot::saved::SavedNamespace;
use crate::namespaces::snapshot::single::file::{Refusal, SingleFile};
use crate::store::block::Block;

/// The manifest to restore, out of the one there is and the one before it; and the damage, if the
/// newer one is damaged. `None` if there is none.
pub(super) fn choose(
    folder: &SnapshotFolder,
    manifests: (Found, Found),
) -> Result<Option<(Manifest, Option<String>)>, TrieError> {
    let path = folder.manifest_path();
    match manifests {
        (Found::Manifest(manifest), _) | (Found::Nothing, Found::Manifest(manifest)) => {
            Ok(Some((manifest, None)))
        }
        (Found::Damaged(found), Found::Manifest(manifest)) => {
            let damage = format!(
                "{} was {found}; it is kept aside, and the one before it was used",
                path.display()
            );
            Ok(Some((manifest, Some(damage))))
        }
        (Found::Damaged(found), _) | (Found::Nothing, Found::Damaged(found)) => {
            Err(TrieError::Refused {
                kind: "snapshot",
                path,
                found: found.to_owned(),
                expected: "an undamaged manifest".to_owned(),
                remedy: "serving starts without it, and its folder is kept as *.unread, or its \
                         manifests as *.damaged where there is one already",
            })
        }
        (Found::Nothing, Found::Nothing) => Ok(None),
    }
}

/// Reads the text of `manifest`, as far as `pool` has bytes for it, and the runs that its blocks
/// now have. Damaged runs are left out, and their parts kept aside; what else these parts hold
/// counts as new, so that the next save writes it again.
pub(super) fn from_parts(
    folder: &SnapshotFolder,
    manifest: &Manifest,
    max_namespaces: usize,
    pool: &Pool,
) -> io::Result<(Loaded, RunsOfBlocks)> {
    let mut saved = manifest.namespaces.clone();
    let (grants, no_room_tokens) = fit(&mut saved, max_namespaces, pool);
    let mut blocks = read_blocks(&saved, grants, |block, grant| {
        read_parted(folder, block, grant)
    })?;
    let lost_headers: Vec<_> = {
        let parts = saved.iter().flat_map(|namespace| &namespace.blocks);
        let parts = parts.flat_map(|block| block.place.all());
        let parts: BTreeSet<_> = parts.map(|run| run.part).collect();
        parts
            .into_iter()
            .filter(|part| !has_header(folder, *part))
            .collect()
    };
    let damaged: Vec<Run> = blocks
        .iter()
        .flat_map(|block| block.damaged.clone())
        .collect();
    let damaged_parts: BTreeSet<_> = damaged
        .iter()
        .map(|run| run.part)
        .chain(lost_headers.iter().copied())
        .collect();
    for &part in &damaged_parts {
        folder.keep_part_aside(part);
    }
    let mut runs = RunsOfBlocks::new();
    for PartedBlock {
        block, runs: known, ..
    } in &mut blocks
    {
        let groups: Vec<_> = known.groups_in(&damaged_parts).into_iter().collect();
        block.dirty().put_back(&groups);
        known.leave(&damaged_parts);
        runs.insert(block.dirty().serial(), std::mem::take(known));
    }
    let damaged_tokens = blocks
        .iter()
        .map(|block| u64::from(block.lost_tokens))
        .sum();
    let first_damage = damaged.first().map(|run| {
        let path = folder.part_path(run.part);
        let (offset, cells) = (run.offset, run.cells);
        format!(
            "{}: {cells} cells from byte {offset} on are damaged; the file is kept as *.damaged",
            path.display()
        )
    });
    let header_damage = lost_headers.first().map(|&part| {
        format!(
            "{}: a damaged header; the file is kept as *.damaged",
            folder.part_path(part).display()
        )
    });
    let namespaces = deal(saved, blocks.into_iter().map(|block| block.block));
    let info = SnapshotInfo {
        damaged_runs: damaged.len() as u64,
        damaged_tokens,
        first_damage: first_damage.or(header_damage),
        ..info_of(&namespaces)
    };
    Ok((
        Loaded {
            namespaces,
            info,
            no_room_tokens,
        },
        runs,
    ))
}

/// Reads the snapshot of an earlier version, as far as `pool` has bytes for it.
pub(super) fn from_single(
    file: &SingleFile<'_>,
    fingerprint: &str,
    max_namespaces: usize,
    pool: &Pool,
) -> Result<Loaded, Refusal> {
    let mut index = file.index(fingerprint)?;
    let (grants, no_room_tokens) = fit(&mut index.namespaces, max_namespaces, pool);
    let blocks = read_blocks(&index.namespaces, grants, |block, grant| {
        file.read(index.version, block, grant)
    })?;
    let namespaces = deal(index.namespaces, blocks.into_iter());
    let info = SnapshotInfo {
        bytes: file.bytes()? as usize,
        ..info_of(&namespaces)
    };
    Ok(Loaded {
        namespaces,
        info,
        no_room_tokens,
    })
}

/// Gives the namespaces their blocks.
fn deal<P>(
    saved: Vec<SavedNamespace<P>>,
    mut blocks: impl Iterator<Item = Block>,
) -> Vec<LoadedNamespace> {
    let namespaces = saved.into_iter().map(|namespace| LoadedNamespace {
        name: namespace.name,
        accepted_tokens: namespace.accepted_tokens,
        blocks: blocks.by_ref().take(namespace.blocks.len()).collect(),
    });
    namespaces.collect()
}

fn info_of(namespaces: &[LoadedNamespace]) -> SnapshotInfo {
    let blocks = namespaces.iter().flat_map(|namespace| &namespace.blocks);
    SnapshotInfo {
        num_namespaces: namespaces.len(),
        num_tokens: blocks.map(|block| u64::from(block.num_tokens())).sum(),
        ..SnapshotInfo::default()
    }
}
