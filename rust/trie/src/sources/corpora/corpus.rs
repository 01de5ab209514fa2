//! An open corpus: its file, and its blocks in memory.

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

use crate::TrieError;
use crate::sources::corpora::block_file::BlockFile;
use crate::sources::corpora::blocks::Blocks;
use crate::sources::corpora::corpus_cache::CorpusCache;
use crate::sources::corpora::frames::Frames;
use crate::sources::corpora::header::Header;
use crate::sources::corpora::layout::BLOCK_BYTES;
use crate::sources::corpora::read_budget::ReadBudget;
use crate::sources::corpora::reader::CorpusReader;
use crate::sources::corpora::readers::Readers;

/// Size and use of a corpus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorpusInfo {
    /// Its name, unique among those loaded.
    pub name: String,
    /// Number of tokens of all documents.
    pub num_tokens: u64,
    /// Number of documents of at least two tokens.
    pub num_documents: u64,
    /// Size of its file in bytes.
    pub bytes: usize,
    /// Who may draft from it.
    pub readers: Readers,
    /// Number of its tokens that the model accepted since it was opened.
    pub accepted_tokens: u64,
    /// Blocks of 64 KiB of its file that were damaged or cut off when they were first read. Nothing
    /// is drafted from them; the others stay in use.
    pub lost_blocks: u64,
    /// The first of them: its bytes in the file, and what was found there.
    pub first_loss: Option<String>,
}

/// How much of its file a corpus has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CorpusReads {
    /// Bytes, those read to open it included.
    pub bytes: u64,
    /// Blocks of 64 KiB read by drafts, which waited for them.
    pub draft_blocks: u64,
    /// Blocks of 64 KiB read ahead in the background.
    pub background_blocks: u64,
}

/// An open corpus file: text and its index, never changed.
///
/// It stays readable for all who hold it, even after it is removed from a [`crate::DraftMemory`] or
/// its file is replaced. Its blocks are read when they are first wanted, or ahead of that, and each
/// is checked then: one that is damaged, or cut off, costs itself and nothing else.
#[derive(Debug)]
pub struct Corpus {
    blocks: Arc<Blocks>,
    /// Where it was opened with one; without, drafts read whatever they need.
    cache: Option<Arc<CorpusCache>>,
    accepted_tokens: AtomicU64,
}

impl Corpus {
    /// Opens the corpus file at `path` for tools: a draft waits for all that it reads, so what it
    /// finds depends on nothing else. Holds at most [`CorpusCache::DEFAULT_BYTES`] of it in memory.
    ///
    /// Reads the header and a table of checksums: 4 MB for a billion tokens. A file of format 1 has
    /// no table, so all of it is read and checked.
    ///
    /// # Errors
    ///
    /// [`TrieError::Io`] if it cannot be read; [`TrieError::Refused`] if its header or table is
    /// damaged, it is cut short, of another format version, or not a corpus. No bytes can make it
    /// panic.
    pub fn open(path: &Path) -> Result<Arc<Self>, TrieError> {
        Ok(Self::alone(BlockFile::open(path)?))
    }

    /// Opens the corpus file at `path` for a server: its blocks are held in `cache`, and no draft
    /// reads more than eight blocks itself; what else it misses counts as not found and is read in
    /// the background. If all of it fits there, it is read ahead.
    ///
    /// # Errors
    ///
    /// Those of [`Corpus::open`].
    pub fn open_in(path: &Path, cache: &Arc<CorpusCache>) -> Result<Arc<Self>, TrieError> {
        Ok(Self::cached(BlockFile::open(path)?, cache))
    }

    /// The corpus of `file`, with memory of its own.
    pub(super) fn alone(file: BlockFile) -> Arc<Self> {
        let bytes = file
            .layout()
            .words()
            .saturating_mul(size_of::<u32>() as u64) as usize;
        let capacity = bytes
            .saturating_add(BLOCK_BYTES)
            .min(CorpusCache::DEFAULT_BYTES);
        let frames = Arc::new(Frames::new(capacity));
        Arc::new(Self {
            blocks: Arc::new(Blocks::new(file, frames)),
            cache: None,
            accepted_tokens: AtomicU64::new(0),
        })
    }

    /// The corpus of `file`, in memory that others share.
    pub(super) fn cached(file: BlockFile, cache: &Arc<CorpusCache>) -> Arc<Self> {
        let blocks = Arc::new(Blocks::new(file, Arc::clone(&cache.frames)));
        if blocks.fit() {
            let ahead: Weak<Blocks> = Arc::downgrade(&blocks);
            cache.loader.preload(ahead);
        }
        Arc::new(Self {
            blocks,
            cache: Some(Arc::clone(cache)),
            accepted_tokens: AtomicU64::new(0),
        })
    }

    /// Reads all of it that finds room in memory, and checks it.
    pub fn load(&self) {
        self.blocks.load_all();
    }

    /// Returns how much of its file was read so far.
    pub fn reads(&self) -> CorpusReads {
        let [draft_blocks, background_blocks] = self.blocks.reads();
        CorpusReads {
            bytes: self.blocks.file().bytes_read(),
            draft_blocks,
            background_blocks,
        }
    }

    fn header(&self) -> &Header {
        self.blocks.file().header()
    }

    /// What a draft with `budget` reads of it.
    #[inline]
    pub(crate) fn reader<'a>(&'a self, budget: &'a ReadBudget) -> CorpusReader<'a> {
        CorpusReader {
            blocks: &self.blocks,
            cache: self.cache.as_deref(),
            budget,
            num_cells: self.header().num_cells,
        }
    }

    /// Returns its name, given when it was built.
    pub fn name(&self) -> &str {
        &self.header().name
    }

    /// Returns the fingerprint of the tokenizer whose ids it holds.
    pub fn fingerprint(&self) -> &str {
        &self.header().fingerprint
    }

    /// Returns the number of tokens of all documents.
    pub fn num_tokens(&self) -> u64 {
        u64::from(self.header().num_cells - self.header().num_documents)
    }

    /// Returns the number of documents of at least two tokens.
    pub fn num_documents(&self) -> u64 {
        u64::from(self.header().num_documents)
    }

    /// Returns the size of its file in bytes.
    pub fn bytes(&self) -> usize {
        self.header().file_bytes() as usize
    }

    /// Returns what is known of it; `readers` are those it is loaded for.
    pub fn info(&self, readers: Readers) -> CorpusInfo {
        let loss = self.blocks.loss();
        CorpusInfo {
            name: self.name().to_owned(),
            num_tokens: self.num_tokens(),
            num_documents: self.num_documents(),
            bytes: self.bytes(),
            readers,
            accepted_tokens: self.accepted_tokens(),
            lost_blocks: loss.blocks,
            first_loss: loss.first,
        }
    }

    /// Blocks of its file that were found damaged or cut off.
    pub(crate) fn lost_blocks(&self) -> u64 {
        self.blocks.loss().blocks
    }

    /// Draft tokens from it that the model accepted.
    pub(crate) fn accepted_tokens(&self) -> u64 {
        self.accepted_tokens.load(Relaxed)
    }

    /// Notes that drafts from it were accepted.
    pub(crate) fn credit(&self, tokens: u32) {
        self.accepted_tokens.fetch_add(u64::from(tokens), Relaxed);
    }
}
