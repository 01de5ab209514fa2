//! The words of a corpus file as they are written, and the checksums of their blocks.

use std::io::{self, Write};

use xxhash_rust::xxh3::xxh3_64;

use crate::sources::corpora::layout::{BLOCK_BYTES, BLOCK_WORDS};

/// Writes words block by block.
pub(super) struct WordWriter<'a, W> {
    out: &'a mut W,
    block: Vec<u8>,
    checksums: Vec<u64>,
}

impl<'a, W: Write> WordWriter<'a, W> {
    /// Writes `words` to `out`.
    pub(super) fn new(out: &'a mut W, words: u64) -> Self {
        Self {
            out,
            block: Vec::with_capacity(BLOCK_BYTES),
            checksums: Vec::with_capacity(words.div_ceil(BLOCK_WORDS as u64) as usize),
        }
    }

    #[inline]
    pub(super) fn push(&mut self, word: u32) -> io::Result<()> {
        self.block.extend_from_slice(&word.to_le_bytes());
        if self.block.len() == BLOCK_BYTES {
            self.end_block()?;
        }
        Ok(())
    }

    /// Fills the rest of a block that was begun with zeros.
    pub(super) fn pad(&mut self) -> io::Result<()> {
        while !self.block.is_empty() {
            self.push(0)?;
        }
        Ok(())
    }

    fn end_block(&mut self) -> io::Result<()> {
        self.checksums.push(xxh3_64(&self.block));
        self.out.write_all(&self.block)?;
        self.block.clear();
        Ok(())
    }

    /// Bytes of memory held.
    pub(super) fn bytes(&self) -> usize {
        self.block.capacity() + size_of::<u64>() * self.checksums.capacity()
    }

    /// Ends the last block; gives the checksums of all.
    pub(super) fn finish(mut self) -> io::Result<Vec<u64>> {
        if !self.block.is_empty() {
            self.end_block()?;
        }
        Ok(self.checksums)
    }
}
