//! The words of one corpus: in memory, or read from its file when they are wanted.

use std::sync::atomic::AtomicU64 as Count;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use super::block_file::BlockFile;
use super::frames::{Block, Frames, Lookup, Slots};
use super::layout::{BLOCK_WORDS, Layout};
use super::loader::{Fetch, Wanted};
use crate::store::sync::AtomicU64;

/// Links of a chain that the background follows for a draft that could not.
const HOPS: usize = 32;

/// Blocks that the background loads before it looks at what drafts want.
const PRELOADED_TOGETHER: usize = 16;

/// Times that a word is looked for while its block is taken from memory again and again.
const TRIES: usize = 8;

/// Blocks that could not be used when they were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Loss {
    pub(super) blocks: u64,
    /// The first of them, and what was found there.
    pub(super) first: Option<String>,
}

/// Where a word may be found.
pub(super) enum Reach<'a> {
    Held(Block<'a>),
    /// Not in memory, and out of reads for now.
    Far,
    /// Read, and of no use.
    Lost,
}

/// A corpus file and those of its blocks that are in memory.
#[derive(Debug)]
pub(super) struct Blocks {
    file: BlockFile,
    slots: Arc<Slots>,
    frames: Arc<Frames>,
    draft_reads: Count,
    background_reads: Count,
    loss: Mutex<Loss>,
}

impl Blocks {
    pub(super) fn new(file: BlockFile, frames: Arc<Frames>) -> Self {
        let count = file.layout().blocks();
        Self {
            slots: (0..count).map(|_| AtomicU64::new(0)).collect(),
            file,
            frames,
            draft_reads: Count::new(0),
            background_reads: Count::new(0),
            loss: Mutex::default(),
        }
    }

    pub(super) fn file(&self) -> &BlockFile {
        &self.file
    }

    #[inline]
    pub(super) fn layout(&self) -> &Layout {
        self.file.layout()
    }

    /// Blocks read by drafts, and by the background.
    pub(super) fn reads(&self) -> [u64; 2] {
        [&self.draft_reads, &self.background_reads].map(|count| count.load(Relaxed))
    }

    pub(super) fn loss(&self) -> Loss {
        let loss = self.loss.lock().unwrap_or_else(PoisonError::into_inner);
        loss.clone()
    }

    /// Whether all blocks find room without pushing others out.
    pub(super) fn fit(&self) -> bool {
        self.slots.len() <= self.frames.num_free()
    }

    /// The block that holds `word`; if it is not in memory, a draft reads it if `may_read` agrees.
    #[inline]
    pub(super) fn reach(&self, word: u64, may_read: impl Fn() -> bool) -> Reach<'_> {
        let block = (word / BLOCK_WORDS as u64) as usize;
        let Some(slot) = self.slots.get(block) else {
            return Reach::Lost;
        };
        match self.frames.get(slot) {
            Lookup::Held(block) => Reach::Held(block),
            Lookup::Lost => Reach::Lost,
            Lookup::Absent => self.read(block, slot, may_read),
        }
    }

    #[cold]
    fn read<'a>(
        &'a self,
        block: usize,
        slot: &'a AtomicU64,
        may_read: impl Fn() -> bool,
    ) -> Reach<'a> {
        for _ in 0..TRIES {
            if !may_read() {
                break;
            }
            self.draft_reads.fetch_add(1, Relaxed);
            self.load(block, true);
            match self.frames.get(slot) {
                Lookup::Held(block) => return Reach::Held(block),
                Lookup::Lost => return Reach::Lost,
                Lookup::Absent => {}
            }
        }
        Reach::Far
    }

    /// Reads a block into memory, or marks it as lost.
    fn load(&self, block: usize, evicts: bool) {
        match self.file.block(block) {
            Ok(bytes) => self.frames.put(&self.slots, block, &bytes, evicts),
            Err(found) => {
                if self.frames.lose(&self.slots, block) {
                    let mut loss = self.loss.lock().unwrap_or_else(PoisonError::into_inner);
                    loss.blocks += 1;
                    loss.first.get_or_insert(found);
                }
            }
        }
    }

    /// The value of `word`, read by the background if need be.
    fn background_word(&self, word: u64) -> Option<u32> {
        let index = (word / BLOCK_WORDS as u64) as usize;
        let slot = self.slots.get(index)?;
        for _ in 0..TRIES {
            match self.frames.get(slot) {
                Lookup::Held(block) => {
                    let value = block.word(word as usize % BLOCK_WORDS);
                    if block.is_held() {
                        return Some(value);
                    }
                }
                Lookup::Lost => return None,
                Lookup::Absent => {
                    self.background_reads.fetch_add(1, Relaxed);
                    self.load(index, true);
                }
            }
        }
        None
    }

    /// Reads every block, in the order of the file, as far as there is room.
    pub(super) fn load_all(&self) {
        let mut first = Some(0);
        while let Some(block) = first {
            first = self.preload(block);
        }
    }
}

impl Fetch for Blocks {
    fn fetch(&self, wanted: Wanted) {
        match wanted {
            Wanted::Word(word) => drop(self.background_word(word)),
            Wanted::Chain { order, word } => {
                let mut link = self.background_word(word);
                for _ in 0..HOPS {
                    let cells = 1..self.file.header().num_cells;
                    let Some(position) = link.filter(|link| cells.contains(link)) else {
                        break;
                    };
                    self.background_word(self.layout().token(position));
                    link = self.background_word(self.layout().link(order, position));
                }
            }
        }
    }

    fn preload(&self, first: usize) -> Option<usize> {
        let end = (first + PRELOADED_TOGETHER).min(self.slots.len());
        for block in first..end {
            if self.frames.num_free() == 0 {
                return None;
            }
            if let Some(slot) = self.slots.get(block)
                && matches!(self.frames.get(slot), Lookup::Absent)
            {
                self.background_reads.fetch_add(1, Relaxed);
                self.load(block, false);
            }
        }
        (end < self.slots.len()).then_some(end)
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        self.frames.release(&self.slots);
    }
}
