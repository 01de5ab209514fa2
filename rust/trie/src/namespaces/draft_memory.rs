//! The draft memory of a worker: its namespaces under one byte budget.

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use spectrie_types::{DropReason, NUM_DROP_REASONS};

use crate::budget::pool::Pool;
use crate::namespaces::roster::Roster;
use crate::namespaces::snapshot::info::SnapshotInfo;
use crate::namespaces::snapshot::load::take_in;
use crate::namespaces::snapshot::turns::Turns;
use crate::store::atomic_file::check_fingerprint;
use crate::store::disk::{Disk, Machine};
use crate::{
    Bigrams, Corpus, CorpusCache, CorpusInfo, MemoryConfig, NamespaceInfo, Readers, SharedTrie,
    TrieError,
};

/// Named, separate shared tries under one byte budget.
///
/// Text of one namespace is never drafted in another. Both the bytes and the number of namespaces
/// are bounded.
#[derive(Debug)]
pub struct DraftMemory {
    pub(super) config: MemoryConfig,
    /// Most bytes of corpora in memory.
    corpus_bytes: usize,
    pub(super) pool: Arc<Pool>,
    held: Mutex<Held>,
    snapshots: Turns,
    /// Bytes written to snapshots.
    written_bytes: AtomicU64,
}

/// What is known by name.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) namespaces: Roster,
    /// Every trie made, also those that only a running request holds, and some that are gone.
    made: Vec<Weak<SharedTrie>>,
    /// Tries that were left when those gone were last removed.
    num_left: usize,
    /// In the order in which they were added.
    corpora: Vec<LoadedCorpus>,
    pub(super) bigrams: Option<Arc<Bigrams>>,
    /// Memory of all corpora, made for the first.
    corpus_cache: Option<Arc<CorpusCache>>,
}

#[derive(Debug)]
struct LoadedCorpus {
    corpus: Arc<Corpus>,
    readers: Readers,
}

impl Held {
    /// The corpora that `namespace` may read.
    pub(super) fn corpora_of(&self, namespace: &str) -> Vec<Arc<Corpus>> {
        let readable = self
            .corpora
            .iter()
            .filter(|loaded| loaded.readers.include(namespace));
        readable.map(|loaded| Arc::clone(&loaded.corpus)).collect()
    }

    /// Notes a new trie. Each pays for two places to look through, so that none looks through all.
    pub(super) fn note_made(&mut self, shared: &Arc<SharedTrie>) {
        if self.made.len() > 2 * self.num_left {
            self.made.retain(|made| made.strong_count() > 0);
            self.num_left = self.made.len();
        }
        self.made.push(Arc::downgrade(shared));
    }

    #[cfg(test)]
    pub(super) fn num_made(&self) -> usize {
        self.made.len()
    }

    /// Hands the corpora to every namespace, also to those that only a running request holds.
    fn share_corpora(&self) {
        for shared in self.made.iter().filter_map(Weak::upgrade) {
            shared.set_corpora(self.corpora_of(shared.name()));
        }
    }
}

impl DraftMemory {
    /// Creates an empty memory.
    ///
    /// # Errors
    ///
    /// [`TrieError::OutOfRange`] if a bound is invalid.
    pub fn new(config: MemoryConfig) -> Result<Self, TrieError> {
        Self::on_disk(config, Arc::new(Machine))
    }

    /// Creates an empty memory that keeps its snapshots on `disk`.
    pub(super) fn on_disk(config: MemoryConfig, disk: Arc<dyn Disk>) -> Result<Self, TrieError> {
        config.validate()?;
        let pool = Arc::new(Pool::new(config.capacity_bytes));
        Ok(Self {
            config,
            corpus_bytes: CorpusCache::DEFAULT_BYTES,
            pool,
            held: Mutex::default(),
            snapshots: Turns::new(disk),
            written_bytes: AtomicU64::new(0),
        })
    }

    /// Sets the bytes of memory that hold corpora opened here, beside the capacity: at least one
    /// block of 64 KiB, taken as corpora are read. Default [`CorpusCache::DEFAULT_BYTES`].
    #[must_use]
    pub fn with_corpus_bytes(mut self, bytes: usize) -> Self {
        self.corpus_bytes = bytes;
        self
    }

    /// Every namespace, the one idle longest first.
    pub(super) fn oldest_first(&self) -> Vec<Arc<SharedTrie>> {
        let mut tries: Vec<_> = self.held().namespaces.tries().cloned().collect();
        tries.sort_by_key(|shared| shared.last_used());
        tries
    }

    pub(super) fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the bigram table that every request drafts from, from its next step on; `None` removes
    /// it.
    pub fn set_bigrams(&self, bigrams: Option<Arc<Bigrams>>) {
        let mut held = self.held();
        for shared in held.made.iter().filter_map(Weak::upgrade) {
            shared.set_bigrams(bigrams.clone());
        }
        held.bigrams = bigrams;
    }

    /// Opens the corpus file at `path` in the memory that all corpora opened here share: see
    /// [`Corpus::open_in`].
    ///
    /// # Errors
    ///
    /// Those of [`Corpus::open`].
    pub fn open_corpus(&self, path: &Path) -> Result<Arc<Corpus>, TrieError> {
        let cache = Arc::clone(
            self.held()
                .corpus_cache
                .get_or_insert_with(|| CorpusCache::new(self.corpus_bytes)),
        );
        Corpus::open_in(path, &cache)
    }

    /// Returns the bytes of corpora in memory, at most those of
    /// [`DraftMemory::with_corpus_bytes`].
    pub fn corpus_memory_bytes(&self) -> usize {
        let held = self.held();
        held.corpus_cache.as_ref().map_or(0, |cache| cache.bytes())
    }

    /// Waits until what corpora read ahead is read.
    pub fn wait_for_corpora(&self) {
        let cache = self.held().corpus_cache.clone();
        if let Some(cache) = cache {
            cache.wait();
        }
    }

    /// Adds `corpus` for `readers`, running requests included, from their next step on.
    ///
    /// # Errors
    ///
    /// [`TrieError::DuplicateCorpus`] if its name is taken; nothing changes then.
    pub fn add_corpus(&self, corpus: Arc<Corpus>, readers: Readers) -> Result<(), TrieError> {
        let mut held = self.held();
        if held
            .corpora
            .iter()
            .any(|loaded| loaded.corpus.name() == corpus.name())
        {
            return Err(TrieError::DuplicateCorpus {
                name: corpus.name().to_owned(),
            });
        }
        held.corpora.push(LoadedCorpus { corpus, readers });
        held.share_corpora();
        Ok(())
    }

    /// Removes the corpus called `name`, from the next step of any request on. Keeps its file.
    ///
    /// # Errors
    ///
    /// [`TrieError::UnknownCorpus`], naming those that are loaded.
    pub fn remove_corpus(&self, name: &str) -> Result<(), TrieError> {
        let mut held = self.held();
        let before = held.corpora.len();
        held.corpora.retain(|loaded| loaded.corpus.name() != name);
        if held.corpora.len() == before {
            let names = held
                .corpora
                .iter()
                .map(|loaded| loaded.corpus.name().to_owned());
            return Err(TrieError::UnknownCorpus {
                given: name.to_owned(),
                loaded: names.collect(),
            });
        }
        held.share_corpora();
        Ok(())
    }

    /// Saves what is new in the text of every namespace in `folder`, which is created if missing, for
    /// the tokenizer with `fingerprint` (at most 64 bytes). Drafting and inserting continue; text
    /// inserted during the save may be missing. Where nothing is new, nothing is written.
    ///
    /// The files are readable by this user only and synced: a crash at any moment leaves the old or
    /// the new snapshot complete. Snapshots of a few other tokenizers stay beside it. Corpora are not
    /// included.
    ///
    /// # Errors
    ///
    /// [`TrieError::Io`] if it cannot be written; the old snapshot stays, and the next save writes
    /// what this one did not. [`TrieError::Fingerprint`] if the fingerprint is too long.
    pub fn save(&self, folder: &Path, fingerprint: &str) -> Result<SnapshotInfo, TrieError> {
        check_fingerprint(fingerprint)?;
        for shared in self.oldest_first() {
            shared.write_waiting();
        }
        loop {
            let mut snapshots = self.snapshots.take();
            let is_awaited = || self.snapshots.is_awaited();
            let tries = self.oldest_first();
            if let Some(info) = snapshots.save(folder, fingerprint, &tries, is_awaited)? {
                self.written_bytes.fetch_add(info.written_bytes, Relaxed);
                return Ok(info);
            }
        }
    }

    /// Restores the snapshot in `folder`; its text counts as older than any inserted since. Text
    /// that exceeds the byte budget or the number of namespaces is left out, the least useful
    /// first, and counted as [`DropReason::NoRoom`]. What is damaged is left out, named, counted as
    /// [`DropReason::Damaged`] and kept aside. Returns what was restored: nothing if there is no
    /// snapshot of this tokenizer.
    ///
    /// # Errors
    ///
    /// [`TrieError::Refused`] if nothing can be used of the snapshot; [`TrieError::Io`] if it cannot
    /// be read. Memory then stays unchanged, and no bytes can make it panic.
    pub fn restore(&self, folder: &Path, fingerprint: &str) -> Result<SnapshotInfo, TrieError> {
        check_fingerprint(fingerprint)?;
        let mut snapshots = self.snapshots.take();
        let max_namespaces = self.config.max_namespaces;
        let loaded = snapshots.restore(folder, fingerprint, max_namespaces, &self.pool)?;
        self.pool
            .note_dropped(DropReason::Damaged, loaded.info.damaged_tokens);
        self.pool
            .note_dropped(DropReason::NoRoom, loaded.no_room_tokens);
        take_in(loaded.namespaces, |name| self.namespace(name));
        Ok(loaded.info)
    }

    /// Forgets the text of `namespace` and returns whether there was any, here or on disk. Running
    /// requests stop reading and extending it with their next step; new ones start empty.
    ///
    /// Name and text are then gone from the files of the folder last saved to or restored from, for
    /// every tokenizer. It waits for the block that a save is writing or for a restore, not for a save.
    ///
    /// # Errors
    ///
    /// [`TrieError::Io`] for a file that can neither be rewritten nor removed. Memory has forgotten
    /// the text then, but a restart may bring it back: forget it again.
    pub fn forget(&self, namespace: &str) -> Result<bool, TrieError> {
        // At once, and again when no snapshot is being restored any more that might hold it.
        let was_known = self.forget_now(namespace);
        let mut snapshots = self.snapshots.take_to_forget();
        let is_known = self.forget_now(namespace);
        let erased = snapshots.forget(namespace, &self.oldest_first())?;
        self.written_bytes.fetch_add(erased.written_bytes, Relaxed);
        Ok(was_known || is_known || erased.was_there)
    }

    /// Returns the bytes written to snapshots since this memory was created.
    pub fn snapshot_written_bytes(&self) -> u64 {
        self.written_bytes.load(Relaxed)
    }

    /// Forgets every trie of that name; says whether there was one for new requests.
    fn forget_now(&self, namespace: &str) -> bool {
        let mut held = self.held();
        let shared = held.namespaces.remove(namespace);
        let made = held.made.iter().filter_map(Weak::upgrade);
        let of_name: Vec<_> = made.filter(|made| made.name() == namespace).collect();
        drop(held);
        for trie in of_name {
            trie.forget(DropReason::Forgotten);
        }
        shared.is_some()
    }

    /// Returns the namespaces, sorted by name.
    pub fn namespaces(&self) -> Vec<NamespaceInfo> {
        let held = self.held();
        let tries = held.namespaces.tries();
        let mut infos: Vec<_> = tries.map(|shared| shared.info()).collect();
        infos.sort_by(|a, b| a.name.cmp(&b.name));
        infos
    }

    /// Returns the loaded corpora, in the order in which they were added.
    pub fn corpora(&self) -> Vec<CorpusInfo> {
        let held = self.held();
        let infos = held
            .corpora
            .iter()
            .map(|loaded| loaded.corpus.info(loaded.readers.clone()));
        infos.collect()
    }

    /// Returns the number of namespaces.
    pub fn num_namespaces(&self) -> usize {
        self.held().namespaces.len()
    }

    /// Returns the bytes that all namespaces own, never above the configured capacity. A running
    /// draft may read an evicted arena for a few microseconds more.
    pub fn bytes(&self) -> usize {
        self.pool.used_bytes()
    }

    /// Returns the bytes of the loaded corpus files, which do not count against the capacity.
    pub fn corpus_bytes(&self) -> usize {
        let held = self.held();
        held.corpora
            .iter()
            .map(|loaded| loaded.corpus.bytes())
            .sum()
    }

    /// Returns the number of blocks of the loaded corpora that were found damaged or cut off.
    pub fn lost_corpus_blocks(&self) -> u64 {
        let held = self.held();
        let corpora = held.corpora.iter();
        corpora.map(|loaded| loaded.corpus.lost_blocks()).sum()
    }

    /// Returns the number of tokens in all namespaces.
    pub fn num_tokens(&self) -> u64 {
        let held = self.held();
        let tries = held.namespaces.tries();
        tries.map(|shared| shared.info().num_tokens).sum()
    }

    /// Returns the number of tokens inserted since this memory was created, those included that found no
    /// room. What a snapshot restored is not among them.
    pub fn inserted_tokens(&self) -> u64 {
        self.pool.inserted_tokens()
    }

    /// Returns the number of tokens evicted since this memory was created: those that made room for
    /// others.
    pub fn evicted_tokens(&self) -> u64 {
        self.pool.evicted_tokens()
    }

    /// Returns the number of tokens dropped since this memory was created, or never taken, by
    /// reason, in the order of [`DropReason::ALL`].
    pub fn dropped_tokens(&self) -> [u64; NUM_DROP_REASONS] {
        self.pool.dropped_tokens()
    }

    /// Returns how often there was no room for more text or a larger table.
    pub fn refused_grants(&self) -> u64 {
        self.pool.refused_grants()
    }
}
