//! Where the words of a corpus file are.
//!
//! After the header come 32-bit words in little-endian order: the tokens, each document followed
//! by [`SEPARATOR`](crate::SEPARATOR); per position, one link of each order; the heads of each
//! order. Links and heads mean what they mean in every log: see `chains.rs`. Words are read in
//! blocks of [`BLOCK_BYTES`]. In format 2 a block holds the tokens of [`BLOCK_CELLS`] positions
//! and their links, so that one read serves a visit; in format 1 all tokens come before all links.

use std::ops::Range;

use crate::store::chains::ORDERS;

/// Bytes that are read, checked and held together.
pub(super) const BLOCK_BYTES: usize = 64 << 10;

/// Words of a block.
pub(super) const BLOCK_WORDS: usize = BLOCK_BYTES / size_of::<u32>();

/// Words of a position: its token and its links.
const CELL_WORDS: usize = 1 + ORDERS.len();

/// Positions of a block in format 2.
pub(super) const BLOCK_CELLS: usize = BLOCK_WORDS / CELL_WORDS;

/// How the words of a file are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// All tokens, then all links; one checksum of the whole file.
    One,
    /// Tokens and links by block; a checksum of each block.
    Two,
}

/// Heads of each order in a corpus of `num_cells`: few distinct single tokens, many longer
/// contexts.
pub(super) fn num_heads(num_cells: u32) -> [usize; ORDERS.len()] {
    ORDERS.map(|order| (num_cells as usize / if order == 1 { 4 } else { 2 }).max(1))
}

/// Places of words, counted from the end of the header.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    format: Format,
    num_cells: u32,
    /// Words of each order's heads.
    heads: [Range<u64>; ORDERS.len()],
}

impl Layout {
    pub(super) fn new(format: Format, num_cells: u32) -> Self {
        let (full, rest) = (
            num_cells as usize / BLOCK_CELLS,
            num_cells as usize % BLOCK_CELLS,
        );
        let mut end = match format {
            Format::One => num_cells as u64 * CELL_WORDS as u64,
            Format::Two => full as u64 * BLOCK_WORDS as u64 + (rest * CELL_WORDS) as u64,
        };
        let heads = num_heads(num_cells).map(|count| {
            let start = end;
            end += count as u64;
            start..end
        });
        Self {
            format,
            num_cells,
            heads,
        }
    }

    /// Number of all words.
    pub(super) fn words(&self) -> u64 {
        self.heads[ORDERS.len() - 1].end
    }

    /// Number of blocks; the last may be short.
    pub(super) fn blocks(&self) -> usize {
        self.words().div_ceil(BLOCK_WORDS as u64) as usize
    }

    /// The words of a block.
    pub(super) fn block(&self, block: usize) -> Range<u64> {
        let start = block as u64 * BLOCK_WORDS as u64;
        start..(start + BLOCK_WORDS as u64).min(self.words())
    }

    /// The word of the token at `position`, which is one of the corpus.
    #[inline]
    pub(super) fn token(&self, position: u32) -> u64 {
        match self.format {
            Format::One => u64::from(position),
            Format::Two => {
                let (block, cell) = split(position);
                (block * BLOCK_WORDS + cell) as u64
            }
        }
    }

    /// How many tokens, from that at `position` backwards, are in one block, one word after the
    /// other.
    #[inline]
    pub(super) fn tokens_back(&self, position: u32) -> usize {
        match self.format {
            Format::One => position as usize % BLOCK_WORDS + 1,
            Format::Two => position as usize % BLOCK_CELLS + 1,
        }
    }

    /// The word of a link of the `position`, which is one of the corpus.
    #[inline]
    pub(super) fn link(&self, order: usize, position: u32) -> u64 {
        match self.format {
            Format::One => {
                u64::from(self.num_cells) + u64::from(position) * ORDERS.len() as u64 + order as u64
            }
            Format::Two => {
                let (block, cell) = split(position);
                let start = block * BLOCK_CELLS;
                let cells = (self.num_cells as usize - start).min(BLOCK_CELLS);
                (block * BLOCK_WORDS + cells + cell * ORDERS.len() + order) as u64
            }
        }
    }

    /// The words of the heads of an order.
    #[inline]
    pub(super) fn heads(&self, order: usize) -> Range<u64> {
        self.heads[order].clone()
    }
}

/// The block of a position in format 2, and its place there.
#[inline]
fn split(position: u32) -> (usize, usize) {
    (
        position as usize / BLOCK_CELLS,
        position as usize % BLOCK_CELLS,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_word_has_a_place_of_its_own() {
        for format in [Format::One, Format::Two] {
            for num_cells in [0, 1, 7, BLOCK_CELLS as u32, 2 * BLOCK_CELLS as u32 + 9] {
                let layout = Layout::new(format, num_cells);
                let cells = (0..num_cells).flat_map(|position| {
                    let links = (0..ORDERS.len()).map(move |order| (order, position));
                    let links = links.map(|(order, position)| layout.link(order, position));
                    links.chain([layout.token(position)]).collect::<Vec<_>>()
                });
                let heads = (0..ORDERS.len()).flat_map(|order| layout.heads(order));
                let places: Vec<u64> = cells.chain(heads).collect();
                let distinct: BTreeSet<_> = places.iter().copied().collect();
                assert_eq!(distinct.len(), places.len(), "{format:?} {num_cells}");
                assert!(places.iter().all(|&place| place < layout.words()));
            }
        }
    }

    #[test]
    fn a_visit_reads_one_block_and_tokens_run_back_inside_it() {
        let layout = Layout::new(Format::Two, 3 * BLOCK_CELLS as u32 + 100);
        let block = |word: u64| word / BLOCK_WORDS as u64;
        for position in (0..3 * BLOCK_CELLS as u32 + 100).step_by(7) {
            let token = layout.token(position);
            for order in 0..ORDERS.len() {
                assert_eq!(block(layout.link(order, position)), block(token));
            }
            let run = layout.tokens_back(position) as u32;
            assert_eq!(layout.token(position + 1 - run), token + 1 - u64::from(run));
            assert_eq!(block(layout.token(position + 1 - run)), block(token));
        }
    }
}
