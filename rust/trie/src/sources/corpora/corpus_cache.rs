//! The memory that holds blocks of open corpora.

use std::sync::Arc;

use spectrie_types::options::CORPUS_MEMORY_BYTES;

use super::frames::Frames;
use super::loader::Loader;

/// Blocks of corpora in memory, verified, and a thread that reads them ahead. All corpora opened
/// with it share one bound on bytes.
#[derive(Debug)]
pub struct CorpusCache {
    pub(super) frames: Arc<Frames>,
    pub(super) loader: Loader,
}

impl CorpusCache {
    /// Default bound: 1 GiB, the text and index of about 39 million tokens.
    pub const DEFAULT_BYTES: usize = CORPUS_MEMORY_BYTES;

    /// Creates an empty cache of at most `capacity_bytes`, at least one block of 64 KiB, and starts
    /// its thread. Memory is taken as blocks come.
    pub fn new(capacity_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            frames: Arc::new(Frames::new(capacity_bytes)),
            loader: Loader::start(),
        })
    }

    /// Returns the bytes of the blocks held.
    pub fn bytes(&self) -> usize {
        self.frames.bytes()
    }

    /// Waits until the thread has read all it was asked for.
    pub fn wait(&self) {
        self.loader.wait();
    }
}
