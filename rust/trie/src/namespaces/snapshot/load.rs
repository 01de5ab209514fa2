//! Reading saved blocks back into memory, as far as there is room.

use std::io;
use std::sync::Arc;

use crate::budget::pool::Pool;
use crate::namespaces::shared_trie::SharedTrie;
use crate::namespaces::snapshot::folder::SnapshotFolder;
use crate::namespaces::snapshot::info::SnapshotInfo;
use crate::namespaces::snapshot::part::part_header;
use crate::namespaces::snapshot::run::{Run, Runs};
use crate::namespaces::snapshot::saved::{SavedBlock, SavedNamespace};
use crate::store::block::Block;
use crate::store::grant::Grant;
use crate::store::heads;
use crate::store::threads::each_side_by_side;

/// Most threads that read blocks, each with a buffer of a run.
const MAX_THREADS: usize = 4;

/// What was read: namespaces with their blocks, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) namespaces: Vec<LoadedNamespace>,
    pub(crate) info: SnapshotInfo,
    /// Tokens left out since there is no room for them.
    pub(crate) no_room_tokens: u64,
}

/// One namespace that was read.
#[derive(Debug)]
pub(crate) struct LoadedNamespace {
    pub(crate) name: String,
    pub(crate) accepted_tokens: u64,
    pub(crate) blocks: Vec<Block>,
}

/// Puts what was read before the text of its namespaces, which `namespace` gives by name.
pub(crate) fn take_in(loaded: Vec<LoadedNamespace>, namespace: impl Fn(&str) -> Arc<SharedTrie>) {
    // Made in this order, which is that of their last use; linked side by side.
    let made = loaded
        .into_iter()
        .map(|loaded| (namespace(&loaded.name), loaded));
    let made: Vec<_> = made.collect();
    each_side_by_side(made.len(), made, |(shared, loaded)| {
        shared.restore(loaded.blocks, loaded.accepted_tokens);
    });
}

/// A block that was read from parts.
#[derive(Debug)]
pub(super) struct PartedBlock {
    pub(super) block: Block,
    /// Its runs, those that could not be read included.
    pub(super) runs: Runs,
    /// Those that could not be read.
    pub(super) damaged: Vec<Run>,
    pub(super) lost_tokens: u32,
}

/// Drops the namespaces above the maximum, and the least useful blocks that the budget cannot hold
/// beside the tables of heads. Gives leave for the other blocks, in their order, and the number of
/// tokens left out.
pub(super) fn fit<P>(
    saved: &mut Vec<SavedNamespace<P>>,
    max_namespaces: usize,
    pool: &Pool,
) -> (Vec<Grant>, u64) {
    let tokens =
        |saved: &[SavedNamespace<P>]| -> u64 { saved.iter().map(SavedNamespace::num_tokens).sum() };
    let all_tokens = tokens(saved);
    let surplus = saved.len().saturating_sub(max_namespaces);
    saved.drain(..surplus);
    let grants = grant(saved, pool);
    let mut granted = grants.iter();
    for namespace in &mut *saved {
        let fits = |_: &SavedBlock<P>| granted.next().is_some_and(Option::is_some);
        namespace.blocks.retain(fits);
    }
    saved.retain(|namespace| !namespace.blocks.is_empty());
    let left_out = all_tokens - tokens(saved);
    (grants.into_iter().flatten().collect(), left_out)
}

/// Leave for each block that fits, the most useful first.
fn grant<P>(saved: &[SavedNamespace<P>], pool: &Pool) -> Vec<Option<Grant>> {
    let shapes = saved.iter().enumerate().flat_map(|(owner, namespace)| {
        let blocks = namespace.blocks.iter();
        blocks.map(move |block| (owner, block.shape))
    });
    let mut all: Vec<_> = shapes.enumerate().collect();
    // The newest first among equals.
    all.sort_by(|(a, (_, first)), (b, (_, second))| {
        let usefulness = |credit: u32, capacity: u32| f64::from(credit) / f64::from(capacity);
        let first = usefulness(first.credit, first.capacity);
        let second = usefulness(second.credit, second.capacity);
        second.total_cmp(&first).then(b.cmp(a))
    });
    // Of nobody, until the blocks go to their namespaces.
    let account = pool.account();
    let mut grants: Vec<Option<Grant>> = all.iter().map(|_| None).collect();
    let mut capacities = vec![0; saved.len()];
    let mut heads_bytes = 0;
    for (index, (owner, shape)) in all {
        let capacity = capacities[owner] + u64::from(shape.capacity);
        let more = heads_bytes + heads::bytes_for(capacity) - heads::bytes_for(capacities[owner]);
        let bytes = Block::bytes_for(shape.capacity as usize);
        if more + bytes <= pool.spare_bytes() {
            grants[index] = pool.grant_spare(bytes, &account);
        }
        if grants[index].is_some() {
            (capacities[owner], heads_bytes) = (capacity, more);
        }
    }
    grants
}

/// Every block of `saved`, in order, read by several threads.
pub(super) fn read_blocks<P: Sync, T: Send, E: Send>(
    saved: &[SavedNamespace<P>],
    grants: Vec<Grant>,
    read: impl Fn(&SavedBlock<P>, Grant) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let blocks = saved.iter().flat_map(|namespace| &namespace.blocks);
    let wanted = blocks.zip(grants).collect();
    let results = each_side_by_side(MAX_THREADS, wanted, |(block, grant)| read(block, grant));
    results.into_iter().collect()
}

/// Reads a block from parts. Where a run is damaged or missing its cells stay separators.
pub(super) fn read_parted(
    folder: &SnapshotFolder,
    saved: &SavedBlock<Runs>,
    grant: Grant,
) -> io::Result<PartedBlock> {
    let mut block = Block::restored(saved.shape, grant);
    let mut damaged = Vec::new();
    let mut bytes = Vec::new();
    for run in saved.place.all() {
        bytes.resize(run.bytes(), 0);
        let is_whole = match folder.read_part(run.part, u64::from(run.offset), &mut bytes) {
            Ok(()) => run.fill(&bytes, &mut block),
            Err(error) if is_damage(&error) => false,
            Err(error) => return Err(error),
        };
        if !is_whole {
            damaged.push(*run);
        }
    }
    let missing = block.recount();
    let lost_tokens = if damaged.is_empty() { 0 } else { missing };
    Ok(PartedBlock {
        block,
        runs: saved.place.clone(),
        damaged,
        lost_tokens,
    })
}

/// Whether the file of a part is what it should be at its beginning.
pub(super) fn has_header(folder: &SnapshotFolder, part: u32) -> bool {
    let expected = part_header(folder.fingerprint());
    let mut found = vec![0; expected.len()];
    folder.read_part(part, 0, &mut found).is_ok() && found == expected
}

/// Whether an error says that bytes of a file are lost, and not that it cannot be read now.
fn is_damage(error: &io::Error) -> bool {
    const EIO: i32 = 5;
    let lost = [io::ErrorKind::NotFound, io::ErrorKind::UnexpectedEof];
    lost.contains(&error.kind()) || error.raw_os_error() == Some(EIO)
}
