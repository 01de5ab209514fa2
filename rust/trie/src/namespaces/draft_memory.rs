//! Shared memory of a worker: its namespaces under one byte budget.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::namespaces::pool::Pool;
use crate::namespaces::snapshot::info::SnapshotInfo;
use crate::namespaces::snapshot::load::{Loaded, load};
use crate::namespaces::snapshot::place::SnapshotPlace;
use crate::namespaces::snapshot::save::{save, save_again};
use crate::store::atomic_file::check_fingerprint;
use crate::{
    Bigrams, Corpus, CorpusInfo, MemoryConfig, NamespaceInfo, Readers, SharedTrie, TrieError,
};

/// Named, separate shared tries under one byte budget.
///
/// Nothing of one namespace is ever drafted in another. Both the bytes and the number of
/// namespaces are bounded.
#[derive(Debug)]
pub struct DraftMemory {
    config: MemoryConfig,
    pool: Arc<Pool>,
    held: Mutex<Held>,
    /// Saves take turns; where the last snapshot is.
    saving: Mutex<Option<SnapshotPlace>>,
}

/// What is known by name.
#[derive(Debug, Default)]
struct Held {
    namespaces: HashMap<String, Arc<SharedTrie>>,
    /// Every trie made, also those that only a running request holds.
    made: Vec<Weak<SharedTrie>>,
    /// In the order in which they were added.
    corpora: Vec<LoadedCorpus>,
    bigrams: Option<Arc<Bigrams>>,
}

#[derive(Debug)]
struct LoadedCorpus {
    corpus: Arc<Corpus>,
    readers: Readers,
}

impl Held {
    /// The corpora that `namespace` may read.
    fn corpora_of(&self, namespace: &str) -> Vec<Arc<Corpus>> {
        let readable = self
            .corpora
            .iter()
            .filter(|loaded| loaded.readers.include(namespace));
        readable.map(|loaded| Arc::clone(&loaded.corpus)).collect()
    }

    /// Hands the corpora to every namespace, also to those that only a running request holds.
    fn share_corpora(&self) {
        for shared in self.made.iter().filter_map(Weak::upgrade) {
            shared.set_corpora(self.corpora_of(shared.name()));
        }
    }
}

impl DraftMemory {
    /// Empty memory.
    ///
    /// # Errors
    ///
    /// [`TrieError::OutOfRange`] when a bound cannot be worked with.
    pub fn new(config: MemoryConfig) -> Result<Self, TrieError> {
        config.validate()?;
        let pool = Arc::new(Pool::new(config.capacity_bytes));
        Ok(Self {
            config,
            pool,
            held: Mutex::default(),
            saving: Mutex::default(),
        })
    }

    /// The trie of a namespace, made empty on first use.
    ///
    /// At the bound on namespaces the one used longest ago, among those that no request holds if
    /// there is such a one, is forgotten whole.
    pub fn namespace(&self, name: &str) -> Arc<SharedTrie> {
        let mut held = self.held();
        if let Some(shared) = held.namespaces.get(name) {
            shared.touch();
            return Arc::clone(shared);
        }
        while held.namespaces.len() >= self.config.max_namespaces {
            let idlest = held
                .namespaces
                .iter()
                .min_by_key(|(_, shared)| (Arc::strong_count(shared) > 1, shared.last_used()))
                .map(|(name, _)| name.clone());
            let Some(idlest) = idlest else { break };
            held.namespaces.remove(&idlest);
        }
        let shared = SharedTrie::new(Arc::clone(&self.pool), name);
        shared.set_corpora(held.corpora_of(name));
        shared.set_bigrams(held.bigrams.clone());
        held.made.retain(|made| made.strong_count() > 0);
        held.made.push(Arc::downgrade(&shared));
        held.namespaces.insert(name.to_owned(), Arc::clone(&shared));
        shared
    }

    #[cfg(test)]
    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Every namespace, the one idle longest first.
    pub(super) fn oldest_first(&self) -> Vec<Arc<SharedTrie>> {
        let mut tries: Vec<_> = self.held().namespaces.values().cloned().collect();
        tries.sort_by_key(|shared| shared.last_used());
        tries
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets every request draft from what the model says after one token alone, from its next step
    /// on; `None` ends that.
    pub fn set_bigrams(&self, bigrams: Option<Arc<Bigrams>>) {
        let mut held = self.held();
        for shared in held.namespaces.values() {
            shared.set_bigrams(bigrams.clone());
        }
        held.bigrams = bigrams;
    }

    /// Lets `readers` draft from `corpus`, running requests included, from their next step on.
    ///
    /// # Errors
    ///
    /// [`TrieError::DuplicateCorpus`] when its name is taken; nothing changes then.
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

    /// Stops drafting from the corpus called `name`, from the next step of any request on. Its
    /// file is left alone.
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
        let new = SnapshotPlace::new(folder, fingerprint);
        let info = save(&new, &self.oldest_first())?;
        *place = Some(new);
        Ok(info)
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
        let place = place.insert(SnapshotPlace::new(folder, fingerprint));
        let loaded = load(place, self.config.max_namespaces, &self.pool)?;
        let info = loaded.info;
        self.take_in(loaded);
        Ok(info)
    }

    /// Puts what a snapshot held before the text of its namespaces.
    pub(super) fn take_in(&self, loaded: Loaded) {
        for namespace in loaded.namespaces {
            let shared = self.namespace(&namespace.name);
            shared.restore(namespace.segments, namespace.accepted_tokens);
        }
    }

    /// Forgets the text of `namespace`, and says whether there was such a
    /// namespace. Its running requests stop reading and extending that text with their next step;
    /// new requests begin with an empty one.
    ///
    /// A snapshot in the folder last saved to or restored from is saved again without the text,
    /// or removed when that fails, before this returns.
    pub fn forget(&self, namespace: &str) -> bool {
        let place = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = self.held().namespaces.remove(namespace);
        if let Some(shared) = &shared {
            shared.forget();
        }
        if let Some(place) = &*place {
            save_again(place, &self.oldest_first());
        }
        shared.is_some()
    }

    /// The namespaces held, by name.
    pub fn namespaces(&self) -> Vec<NamespaceInfo> {
        let held = self.held();
        let mut infos: Vec<_> = held
            .namespaces
            .values()
            .map(|shared| shared.info())
            .collect();
        infos.sort_by(|a, b| a.name.cmp(&b.name));
        infos
    }

    /// The corpora that are loaded, in the order in which they were added.
    pub fn corpora(&self) -> Vec<CorpusInfo> {
        let held = self.held();
        let infos = held
            .corpora
            .iter()
            .map(|loaded| loaded.corpus.info(loaded.readers.clone()));
        infos.collect()
    }

    /// Number of namespaces held.
    pub fn num_namespaces(&self) -> usize {
        self.held().namespaces.len()
    }

    /// Bytes of everything that namespaces own: never above the configured capacity. A draft that
    /// is running may still read, for some microseconds, an arena that is owned no more.
    pub fn bytes(&self) -> usize {
        self.pool.used_bytes()
    }

    /// Bytes of the corpus files that are loaded, which do not count against the capacity.
    pub fn corpus_bytes(&self) -> usize {
        let held = self.held();
        held.corpora
            .iter()
            .map(|loaded| loaded.corpus.bytes())
            .sum()
    }

    /// Tokens that all namespaces hold.
    pub fn num_tokens(&self) -> u64 {
        let held = self.held();
        held.namespaces
            .values()
            .map(|shared| shared.info().num_tokens)
            .sum()
    }

    /// Tokens that made room for others, since this memory was made.
    pub fn evicted_tokens(&self) -> u64 {
        self.pool.evicted_tokens()
    }
}
