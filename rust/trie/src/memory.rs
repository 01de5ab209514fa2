//! Shared memory of a worker: its namespaces under one byte budget.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::pool::Pool;
use crate::{MemoryConfig, SharedTrie, TrieError};

/// Named, separate shared tries under one byte budget.
///
/// Nothing of one namespace is ever drafted in another. Both the bytes and the number of
/// namespaces are bounded.
#[derive(Debug)]
pub struct DraftMemory {
    config: MemoryConfig,
    pool: Arc<Pool>,
    namespaces: Mutex<HashMap<String, Arc<SharedTrie>>>,
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
            namespaces: Mutex::default(),
        })
    }

    /// The trie of a namespace, made empty on first use.
    ///
    /// At the bound on namespaces the one used longest ago, among those that no request holds if
    /// there is such a one, is forgotten whole.
    pub fn namespace(&self, name: &str) -> Arc<SharedTrie> {
        let mut namespaces = self
            .namespaces
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = namespaces.get(name) {
            shared.touch();
            return Arc::clone(shared);
        }
        while namespaces.len() >= self.config.max_namespaces {
            let idlest = namespaces
                .iter()
                .min_by_key(|(_, shared)| (Arc::strong_count(shared) > 1, shared.last_used()))
                .map(|(name, _)| name.clone());
            let Some(idlest) = idlest else { break };
            namespaces.remove(&idlest);
        }
        let shared = SharedTrie::new(Arc::clone(&self.pool));
        namespaces.insert(name.to_owned(), Arc::clone(&shared));
        shared
    }

    /// Number of namespaces held.
    pub fn num_namespaces(&self) -> usize {
        self.namespaces
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }

    /// Bytes of every arena alive: never above the configured capacity, save while a draft that
    /// is running still reads an evicted segment.
    pub fn bytes(&self) -> usize {
        self.pool.used_bytes()
    }
}
