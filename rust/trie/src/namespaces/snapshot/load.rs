//! Reading a snapshot back into segments.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use crate::TrieError;
use crate::namespaces::pool::Pool;
use crate::namespaces::snapshot::file::{self, ReadAt, Refusal, SavedNamespace, SavedSegment};
use crate::namespaces::snapshot::info::SnapshotInfo;
use crate::namespaces::snapshot::place::SnapshotPlace;
use crate::store::atomic_file::{CHECKSUM_BYTES, checked};
use crate::store::grant::Grant;
use crate::store::segment::Segment;

/// Most threads that read segments, each with a buffer of the largest segment.
const MAX_THREADS: usize = 4;

/// What was read: namespaces with their segments, oldest first.
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
    pub(crate) segments: Vec<Arc<Segment>>,
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
    let mut saved = file::read_index(source, fingerprint)?;
    let surplus = saved.len().saturating_sub(max_namespaces);
    saved.drain(..surplus);
    let grants = fit(&mut saved, pool);
    let segments = read_segments(source, &saved, grants, pool)?;
    let info = SnapshotInfo::new(&saved, source.len()? as usize);
    let mut segments = segments.into_iter();
    let namespaces = saved.into_iter().map(|namespace| LoadedNamespace {
        name: namespace.name,
        accepted_tokens: namespace.accepted_tokens,
        segments: segments.by_ref().take(namespace.segments.len()).collect(),
    });
    Ok(Loaded {
        namespaces: namespaces.collect(),
        info,
    })
}

/// Drops the least useful segments that the budget cannot hold, and gives leave for the
/// others, in their order.
fn fit(saved: &mut Vec<SavedNamespace>, pool: &Pool) -> Vec<Grant> {
    let mut all: Vec<_> = saved
        .iter()
        .flat_map(|namespace| &namespace.segments)
        .enumerate()
        .map(|(index, segment)| (index, segment.shape))
        .collect();
    // The newest first among equals.
    all.sort_by(|(a, first), (b, second)| {
        let usefulness = |credit: u32, capacity: u32| f64::from(credit) / f64::from(capacity);
        let first = usefulness(first.credit, first.capacity);
        let second = usefulness(second.credit, second.capacity);
        second.total_cmp(&first).then(b.cmp(a))
    });
    let mut grants: Vec<Option<Grant>> = all.iter().map(|_| None).collect();
    for (index, shape) in all {
        let bytes = Segment::bytes_for(shape.capacity as usize);
        grants[index] = pool.grant_spare(bytes);
    }
    let mut granted = grants.iter();
    for namespace in &mut *saved {
        let fits = |_: &SavedSegment| granted.next().is_some_and(Option::is_some);
        namespace.segments.retain(fits);
    }
    saved.retain(|namespace| !namespace.segments.is_empty());
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

/// Every segment of `saved`, in order, read by several threads.
fn read_segments<S: ReadAt>(
    source: &S,
    saved: &[SavedNamespace],
    grants: Vec<Grant>,
    pool: &Pool,
) -> Result<Vec<Arc<Segment>>, Refusal> {
    let wanted: Vec<_> = saved
        .iter()
        .flat_map(|namespace| &namespace.segments)
        .zip(grants)
        .map(|(segment, grant)| (pool.next_id(), *segment, grant))
        .collect();
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.min(MAX_THREADS).min(wanted.len());
    if threads < 2 {
        return read_share(source, wanted);
    }
    let mut shares: Vec<Vec<_>> = (0..threads).map(|_| Vec::new()).collect();
    for (index, segment) in wanted.into_iter().enumerate() {
        shares[index % threads].push(segment);
    }
    let parts: Vec<Result<Vec<_>, Refusal>> = thread::scope(|scope| {
        let readers: Vec<_> = shares
            .into_iter()
            .map(|share| scope.spawn(|| read_share(source, share)))
            .collect();
        let joined = readers.into_iter().map(thread::ScopedJoinHandle::join);
        let lost = || Err(Refusal::Io(io::Error::other("a reading thread failed")));
        joined.map(|part| part.unwrap_or_else(|_| lost())).collect()
    });
    let mut segments = Vec::new();
    for part in parts {
        segments.extend(part?);
    }
    segments.sort_by_key(|segment| segment.id());
    Ok(segments)
}

fn read_share<S: ReadAt>(
    source: &S,
    share: Vec<(u64, SavedSegment, Grant)>,
) -> Result<Vec<Arc<Segment>>, Refusal> {
    let mut buffer = Vec::new();
    let mut segments = Vec::with_capacity(share.len());
    for (id, SavedSegment { offset, shape }, grant) in share {
        buffer.resize(shape.saved_bytes() + CHECKSUM_BYTES, 0);
        source.read_at(&mut buffer, offset)?;
        let bytes = checked(&buffer).ok_or_else(|| file::damaged("segment"))?;
        segments.push(Arc::new(Segment::load(id, grant, shape, bytes)));
    }
    Ok(segments)
}
