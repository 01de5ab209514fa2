//! Shared memory on disk: saved while it is used, restored at the next start.

mod file;
#[cfg(test)]
mod fuzz;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::thread;

use crate::namespaces::pool::Pool;
use crate::store::atomic_file::{
    self, Access, CHECKSUM_BYTES, Checked, check_fingerprint, checked,
};
use crate::store::grant::Grant;
use crate::store::segment::Segment;
use crate::{DraftMemory, TrieError};
use file::{Refusal, SavedNamespace, SavedSegment, Source};

/// Name of a snapshot in its folder.
const FILE_NAME: &str = "memory.snapshot";

/// Most threads that read segments, each with a buffer of the largest segment.
const MAX_THREADS: usize = 4;

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

/// Where a snapshot is, and for which tokenizer.
#[derive(Debug)]
pub(crate) struct SnapshotPlace {
    path: PathBuf,
    fingerprint: String,
}

impl DraftMemory {
    /// Saves the text of every namespace in `folder`, which is made when there is none, for the
    /// tokenizer with `fingerprint` (at most 64 bytes). Drafting and inserting go on meanwhile;
    /// what is inserted meanwhile may be missing.
    ///
    /// The file, readable by this user alone, is replaced at once and synced: after a crash at
    /// any moment the old or the new snapshot is there whole. Corpora are not part of it.
    ///
    /// # Errors
    ///
    /// [`TrieError::Io`] when it cannot be written; the old snapshot stays.
    /// [`TrieError::Fingerprint`].
    pub fn save(&self, folder: &Path, fingerprint: &str) -> Result<SnapshotInfo, TrieError> {
        check_fingerprint(fingerprint)?;
        let mut place = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        fs::create_dir_all(folder).map_err(|error| TrieError::io("make", folder, &error))?;
        let new = SnapshotPlace {
            path: folder.join(FILE_NAME),
            fingerprint: fingerprint.to_owned(),
        };
        let info = self.save_to(&new)?;
        *place = Some(new);
        Ok(info)
    }

    /// Saves where a snapshot is, so that it no longer holds what was forgotten.
    pub(crate) fn save_again(&self, place: &SnapshotPlace) {
        if place.path.exists() && self.save_to(place).is_err() {
            // A cold start is better than text that was to be forgotten.
            let _ = fs::remove_file(&place.path);
        }
    }

    /// The caller has the turn to save.
    fn save_to(&self, place: &SnapshotPlace) -> Result<SnapshotInfo, TrieError> {
        let SnapshotPlace { path, fingerprint } = place;
        atomic_file::remove_partials(path);
        let mut saved = Vec::new();
        let bytes = atomic_file::replace(path, Access::Private, |writer| {
            saved = self.write(writer, fingerprint)?;
            Ok(())
        })?;
        Ok(info(&saved, bytes))
    }

    fn write<W: Write>(
        &self,
        writer: &mut Checked<W>,
        fingerprint: &str,
    ) -> io::Result<Vec<SavedNamespace>> {
        file::write_header(writer, fingerprint)?;
        let mut saved = Vec::new();
        for shared in self.oldest_first() {
            let mut segments = Vec::new();
            for segment in shared.snapshot().iter() {
                let offset = writer.bytes() as u64;
                let shape = segment.save(writer)?;
                segments.push(SavedSegment { offset, shape });
            }
            if !segments.is_empty() {
                saved.push(SavedNamespace {
                    name: shared.name().to_owned(),
                    accepted_tokens: shared.accepted_tokens(),
                    segments,
                });
            }
        }
        file::write_index(writer, &saved)?;
        Ok(saved)
    }

    /// Restores what [`DraftMemory::save`] left in `folder`: its text comes before any that was
    /// inserted since. What the byte budget or the bound on namespaces cannot hold is left out,
    /// the least useful text first. Says what was restored, which is nothing when there is no
    /// snapshot.
    ///
    /// # Errors
    ///
    /// [`TrieError::Refused`] when the snapshot is damaged, of another format version or of
    /// another tokenizer, [`TrieError::Io`] when it cannot be read. Memory stays as it was then,
    /// and no bytes can make it panic.
    pub fn restore(&self, folder: &Path, fingerprint: &str) -> Result<SnapshotInfo, TrieError> {
        let mut place = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        let path = folder.join(FILE_NAME);
        *place = Some(SnapshotPlace {
            path: path.clone(),
            fingerprint: fingerprint.to_owned(),
        });
        let source = match File::open(&path) {
            Ok(source) => source,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(SnapshotInfo::default());
            }
            Err(error) => return Err(TrieError::io("open", &path, &error)),
        };
        let restored = self.restore_from(&source, fingerprint);
        restored.map_err(|refusal| match refusal {
            Refusal::Io(error) => TrieError::io("read", &path, &error),
            Refusal::Wrong { found, expected } => refused(path, found, expected),
        })
    }

    fn restore_from<S: Source>(
        &self,
        source: &S,
        fingerprint: &str,
    ) -> Result<SnapshotInfo, Refusal> {
        let mut saved = file::read_index(source, fingerprint)?;
        let surplus = saved.len().saturating_sub(self.max_namespaces());
        saved.drain(..surplus);
        let grants = self.fit(&mut saved);
        let segments = read_segments(source, &saved, grants, self.pool())?;
        let bytes = source.len()? as usize;
        let mut segments = segments.into_iter();
        for namespace in &saved {
            let own = segments.by_ref().take(namespace.segments.len()).collect();
            let shared = self.namespace(&namespace.name);
            shared.restore(own, namespace.accepted_tokens);
        }
        Ok(info(&saved, bytes))
    }

    /// Drops the least useful segments that the budget cannot hold, and gives leave for the
    /// others, in their order.
    fn fit(&self, saved: &mut Vec<SavedNamespace>) -> Vec<Grant> {
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
            grants[index] = self.pool().grant_spare(bytes);
        }
        let mut granted = grants.iter();
        for namespace in &mut *saved {
            let fits = |_: &SavedSegment| granted.next().is_some_and(Option::is_some);
            namespace.segments.retain(fits);
        }
        saved.retain(|namespace| !namespace.segments.is_empty());
        grants.into_iter().flatten().collect()
    }
}

fn info(saved: &[SavedNamespace], bytes: usize) -> SnapshotInfo {
    let segments = saved.iter().flat_map(|namespace| &namespace.segments);
    SnapshotInfo {
        num_namespaces: saved.len(),
        num_tokens: segments
            .map(|segment| u64::from(segment.shape.num_tokens))
            .sum(),
        bytes,
    }
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
fn read_segments<S: Source>(
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

fn read_share<S: Source>(
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
