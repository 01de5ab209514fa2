//! Calls of operators while the engine serves: corpora, namespaces, snapshots.
//!
//! None of these calls waits for a step, and no step waits for them.

use std::path::Path;
use std::sync::Arc;

use spectrie_trie::{Bigrams, CorpusInfo, DraftMemory, NamespaceInfo, Readers, SnapshotInfo};

use super::handle::Engine;
use crate::error::EngineError;

impl Engine {
    /// Lets `readers` draft from the corpus file at `path`, from their next step on.
    ///
    /// # Errors
    /// [`EngineError::SpeculationOff`]; [`EngineError::ForeignCorpus`] for one of another
    /// tokenizer; [`EngineError::Drafting`] when it cannot be read or its name is taken. Nothing
    /// changes then.
    pub fn add_corpus(&self, path: &Path, readers: Readers) -> Result<CorpusInfo, EngineError> {
        let memory = self.memory()?;
        let corpus = memory.open_corpus(path)?;
        if let Some(expected) = &self.tokenizer_fingerprint
            && corpus.fingerprint() != expected
        {
            return Err(EngineError::ForeignCorpus {
                path: path.to_owned(),
                given: corpus.fingerprint().to_owned(),
                expected: expected.clone(),
            });
        }
        let info = corpus.info(readers.clone());
        memory.add_corpus(corpus, readers)?;
        Ok(info)
    }

    /// Stops drafting from a corpus, from the next step on; its file is left alone.
    ///
    /// # Errors
    /// [`EngineError::SpeculationOff`]; [`EngineError::Drafting`] naming those that are loaded.
    pub fn remove_corpus(&self, name: &str) -> Result<(), EngineError> {
        Ok(self.memory()?.remove_corpus(name)?)
    }

    /// Lets every request draft from the bigram table from its next step on; `None` removes the table.
    ///
    /// # Errors
    /// [`EngineError::SpeculationOff`]; [`EngineError::Config`] for a table of another vocabulary.
    pub fn set_bigrams(&self, bigrams: Option<Arc<Bigrams>>) -> Result<(), EngineError> {
        let memory = self.memory()?;
        if let Some(bigrams) = &bigrams {
            self.check_vocabulary(bigrams)?;
        }
        memory.set_bigrams(bigrams);
        Ok(())
    }

    fn check_vocabulary(&self, bigrams: &Bigrams) -> Result<(), EngineError> {
        let size = self.vocabulary_size;
        let wrong = |given: String, allowed: String| EngineError::Config {
            name: "bigrams",
            given,
            allowed,
        };
        if bigrams.num_tokens() != size {
            let given = format!("a table of {} tokens", bigrams.num_tokens());
            return Err(wrong(given, format!("{size}, the vocabulary size")));
        }
        match bigrams.successors().find(|&id| id as usize >= size) {
            Some(id) => {
                let given = format!("a table with token {id}");
                Err(wrong(
                    given,
                    format!("ids below the vocabulary size {size}"),
                ))
            }
            None => Ok(()),
        }
    }

    /// The loaded corpora, in the order of loading.
    pub fn corpora(&self) -> Vec<CorpusInfo> {
        self.memory
            .as_ref()
            .map_or_else(Vec::new, |memory| memory.corpora())
    }

    /// The namespaces that learned something or run requests, by name.
    pub fn namespaces(&self) -> Vec<NamespaceInfo> {
        self.memory
            .as_ref()
            .map_or_else(Vec::new, |memory| memory.namespaces())
    }

    /// Forgets all that a namespace learned and drops its kept prefixes. Returns whether it had learned
    /// anything. Its running requests draft from their own text from their next step on, insert no
    /// more text and share no more pages.
    ///
    /// # Errors
    /// [`EngineError::Drafting`] when it cannot be erased from the snapshot: it is forgotten here, but
    /// a restart may bring it back.
    pub fn forget(&self, namespace: &str) -> Result<bool, EngineError> {
        self.forget_prefixes(namespace);
        let Some(memory) = &self.memory else {
            return Ok(false);
        };
        Ok(memory.forget(namespace)?)
    }

    /// Saves what is new of what namespaces learned in `folder`, which is created if needed. A crash
    /// leaves the old snapshot or the new one.
    ///
    /// # Errors
    /// [`EngineError::SpeculationOff`]; [`EngineError::Drafting`] when it cannot be written.
    pub fn save(&self, folder: &Path, fingerprint: &str) -> Result<SnapshotInfo, EngineError> {
        Ok(self.memory()?.save(folder, fingerprint)?)
    }

    /// Restores the snapshot in `folder`, if there is one.
    ///
    /// # Errors
    /// [`EngineError::SpeculationOff`]; [`EngineError::Drafting`] for a snapshot of which nothing can
    /// be used. Memory stays as it was then. Damage that costs a part is in the result.
    pub fn restore(&self, folder: &Path, fingerprint: &str) -> Result<SnapshotInfo, EngineError> {
        Ok(self.memory()?.restore(folder, fingerprint)?)
    }

    fn memory(&self) -> Result<&DraftMemory, EngineError> {
        self.memory.as_deref().ok_or(EngineError::SpeculationOff)
    }
}
