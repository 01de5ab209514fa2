//! Reading a snapshot back into blocks.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::thread;

use crate::TrieError;
use crate::namespaces::pool::Pool;
use crate::namespaces::snapshot::file::{self, ReadAt, Refusal, SavedBlock, SavedNamespace};
use crate::namespaces::snapshot::info::SnapshotInfo;
use crate::namespaces::snapshot::place::SnapshotPlace;
use crate::namespaces::snapshot::segment;
use crate::store::atomic_file::{CHECKSUM_BYTES, checked};
use crate::store::block::Block;
use crate::store::grant::Grant;
use crate::store::heads;

/// Most threads that read blocks, each with a buffer of the largest.
const MAX_THREADS: usize = 4;

/// What was read: namespaces with their blocks, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) namespaces: Vec<LoadedNamespace>,
    pub(crate) info: SnapshotInfo,
}

/// One namespace that was read.
#[derive(Debug)]
pub(crate) struct LoadedNamespace {
    pub(crate) name: String,
    pub(crate) accepted_tokens: u64,
    pub(crate) blocks: Vec<Block>,
}

/// Reads the snapshot at `place`, as far as `pool` has bytes for it; nothing when there is none.
pub(crate) fn load(
    place: &SnapshotPlace,
    max_namespaces: usize,
    pool: &Pool,
) -> Result<Loaded, TrieError> {
    let path = &place.path;
    let source = match File::open(path) {
        Ok(source) => source,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Loaded::default()),
        Err(error) => return Err(TrieError::io("open", path, &error)),
    };
    let loaded = load_from(&source, &place.fingerprint, max_namespaces, pool);
    loaded.map_err(|refusal| match refusal {
        Refusal::Io(error) => TrieError::io("read", path, &error),
        Refusal::Wrong { found, expected } => refused(path.clone(), found, expected),
    })
}

/// Reads what `source` holds for the tokenizer with `fingerprint`.
pub(super) fn load_from<S: ReadAt>(
    source: &S,
    fingerprint: &str,
    max_namespaces: usize,
    pool: &Pool,
) -> Result<Loaded, Refusal> {
    let (version, mut saved) = file::read_index(source, fingerprint)?;
    let surplus = saved.len().saturating_sub(max_namespaces);
    saved.drain(..surplus);
    let grants = fit(&mut saved, pool);
    let blocks = read_blocks(source, version, &saved, grants)?;
    let info = SnapshotInfo::new(&saved, source.len()? as usize);
    let mut blocks = blocks.into_iter();
    let namespaces = saved.into_iter().map(|namespace| LoadedNamespace {
        name: namespace.name,
        accepted_tokens: namespace.accepted_tokens,
        blocks: blocks.by_ref().take(namespace.blocks.len()).collect(),
    });
    Ok(Loaded {
        namespaces: namespaces.collect(),
        info,
    })
}

/// Drops the least useful blocks that the budget cannot hold beside the tables of heads, and gives
/// leave for the others, in their order.
fn fit(saved: &mut Vec<SavedNamespace>, pool: &Pool) -> Vec<Grant> {
    let mut all: Vec<_> = saved
        .iter()
        .enumerate()
        .flat_map(|(owner, namespace)| {
            namespace
                .blocks
                .iter()
                .map(move |block| (owner, block.shape))
        })
        .enumerate()
        .collect();
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
    let mut granted = grants.iter();
    for namespace in &mut *saved {
        let fits = |_: &SavedBlock| granted.next().is_some_and(Option::is_some);
        namespace.blocks.retain(fits);
    }
    saved.retain(|namespace| !namespace.blocks.is_empty());
    grants.into_iter().flatten().collect()
}

fn refused(path: PathBuf, found: String, expected: String) -> TrieError {
    TrieError::Refused {
        kind: "snapshot",
        path,
        found,
        expected,
        remedy: "serving starts without it, and the next save replaces it",
    }
}

/// Every block of `saved`, in order, read by several threads.
fn read_blocks<S: ReadAt>(
    source: &S,
    version: u32,
    saved: &[SavedNamespace],
    grants: Vec<Grant>,
) -> Result<Vec<Block>, Refusal> {
    let wanted: Vec<_> = saved
        .iter()
        .flat_map(|namespace| &namespace.blocks)
        .zip(grants)
        .enumerate()
        .map(|(index, (block, grant))| (index, *block, grant))
        .collect();
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.min(MAX_THREADS).min(wanted.len()).max(1);
    let mut shares: Vec<Vec<_>> = (0..threads).map(|_| Vec::new()).collect();
    for (index, block) in wanted.into_iter().enumerate() {
        shares[index % threads].push(block);
    }
    let parts: Vec<Result<Vec<_>, Refusal>> = thread::scope(|scope| {
        let readers: Vec<_> = shares
            .into_iter()
            .map(|share| scope.spawn(|| read_share(source, version, share)))
            .collect();
        let joined = readers.into_iter().map(thread::ScopedJoinHandle::join);
        let lost = || Err(Refusal::Io(io::Error::other("a reading thread failed")));
        joined.map(|part| part.unwrap_or_else(|_| lost())).collect()
    });
    let mut blocks = Vec::new();
    for part in parts {
        blocks.extend(part?);
    }
    blocks.sort_by_key(|(index, _)| *index);
    Ok(blocks.into_iter().map(|(_, block)| block).collect())
}

fn read_share<S: ReadAt>(
    source: &S,
    version: u32,
    share: Vec<(usize, SavedBlock, Grant)>,
) -> Result<Vec<(usize, Block)>, Refusal> {
    let mut buffer = Vec::new();
    let mut blocks = Vec::with_capacity(share.len());
    for (index, SavedBlock { offset, shape }, grant) in share {
        buffer.resize(file::saved_bytes(version, shape) + CHECKSUM_BYTES, 0);
        source.read_at(&mut buffer, offset)?;
        let bytes = checked(&buffer).ok_or_else(|| file::damaged("block"))?;
        let (words, _) = bytes.as_chunks::<4>();
        let words: Vec<_> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
        let (tokens, rest) = words.split_at(shape.end as usize);
        let contexts = if version == file::SEGMENTS_VERSION {
            segment::contexts(shape, &words)
        } else {
            rest.to_vec()
        };
        let block = Block::load(grant, shape, tokens.iter().copied(), contexts.into_iter());
        blocks.push((index, block));
    }
    Ok(blocks)
}
