//! The index of a text of one request: hash chains over its newest part.
//!
//! It grows with the text a few buckets at a time, as the tables of shared text do
//! (`store/buckets.rs`), and its rows lie in chunks that never move. So each push does a bounded
//! amount of work, however long the text is.

use std::collections::VecDeque;

use crate::store::buckets::{FAN, FIRST_BUCKETS, NEW, begun, bits_of, bucket, number, whole};
use crate::store::chains::{ORDERS, suffix_hash, suffix_hashes};
use crate::{SEPARATOR, TokenId};

/// The links of one position, or the heads of one bucket; 0 = none.
type Row = [u32; ORDERS.len()];

/// Rows that are allocated together.
pub(super) const CHUNK_ROWS: usize = 64;

/// Bytes of the index for one position: its links, and a bucket of heads.
pub(super) const ROW_BYTES: usize = 2 * size_of::<Row>();

/// Positions of the smallest index.
pub(super) const MIN_ROWS: usize = FIRST_BUCKETS as usize;

/// Most entries of a chain that are moved when its bucket is split, and most newer ones that an
/// older position is put behind: as many as a draft visits.
const MAX_MOVED: usize = 128;
const MAX_NEWER: usize = 64;

/// Hash chains over a part of a token log, for a single writer.
#[derive(Debug, Default)]
pub(super) struct TextIndex {
    /// The oldest position in it, and the one after the newest.
    first: usize,
    end: usize,
    /// For each position, the one before it in its bucket, by order. The first chunk has
    /// `num_dropped` before it.
    links: VecDeque<Box<[Row]>>,
    num_dropped: usize,
    /// For each bucket, the newest position in it, by order.
    heads: Vec<Box<[Row]>>,
    /// Buckets in use.
    size: u32,
    /// Rows that it may have.
    max_rows: usize,
    /// Entries that are moved, with their parts of a bucket; kept from one time to the next.
    moved: Vec<(u32, usize)>,
}

fn chunk() -> Box<[Row]> {
    vec![[0; ORDERS.len()]; CHUNK_ROWS].into_boxed_slice()
}

impl TextIndex {
    pub(super) fn first(&self) -> usize {
        self.first
    }

    /// Positions, and buckets, that it may have.
    pub(super) fn max_rows(&self) -> usize {
        self.max_rows
    }

    /// Bytes of its rows.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        (self.links.len() + self.heads.len()) * CHUNK_ROWS * size_of::<Row>()
    }

    /// Buckets in use.
    #[cfg(test)]
    pub(super) fn size(&self) -> u32 {
        self.size
    }

    /// Allows it more rows, a multiple of [`CHUNK_ROWS`] and at least [`MIN_ROWS`].
    pub(super) fn allow(&mut self, max_rows: usize) {
        self.max_rows = max_rows;
        if self.size == 0 {
            self.add_buckets(FIRST_BUCKETS);
        }
    }

    /// Gives an empty index all its buckets at once.
    pub(super) fn spread(&mut self) {
        if self.first == self.end && self.max_rows > 0 {
            self.add_buckets(whole(self.max_rows as u32).max(self.size));
        }
    }

    /// Whether another position needs more rows than it may have.
    pub(super) fn is_full(&self) -> bool {
        self.links.len() * CHUNK_ROWS >= self.max_rows
            && self.end >= (self.num_dropped + self.links.len()) * CHUNK_ROWS
    }

    /// Puts the last of `tokens` into the chains of its contexts, in room that there is.
    pub(super) fn push(&mut self, tokens: &[TokenId]) {
        let position = tokens.len() - 1;
        if self.max_rows == 0 || self.is_full() {
            (self.first, self.end) = (tokens.len(), tokens.len());
            return;
        }
        if self.links.is_empty() {
            (self.first, self.num_dropped) = (position, position / CHUNK_ROWS);
        }
        self.end = position + 1;
        if (self.num_dropped + self.links.len()) * CHUNK_ROWS < self.end {
            self.links.push_back(chunk());
        }
        if tokens[position] != SEPARATOR {
            let (hashes, count) = suffix_hashes(&tokens[..position]);
            for (order, &hash) in hashes[..count].iter().enumerate() {
                let head = &mut self.row_of(hash)[order];
                let next = std::mem::replace(head, position as u32);
                self.links_mut(position)[order] = next;
            }
        }
        if self.size as usize + NEW as usize <= self.max_rows {
            self.split(tokens);
        }
    }

    /// Drops the oldest positions, as many as a chunk holds at most.
    pub(super) fn drop_oldest(&mut self) {
        if self.links.pop_front().is_some() {
            self.num_dropped += 1;
            self.first = self.num_dropped * CHUNK_ROWS;
        }
    }

    /// Takes the position before the oldest in, if a quarter of the rows stay free for new ones, and
    /// says whether it did.
    pub(super) fn take_older(&mut self, tokens: &[TokenId]) -> bool {
        if self.first == 0 || self.links.is_empty() {
            return false;
        }
        let position = self.first - 1;
        if position < self.num_dropped * CHUNK_ROWS {
            if (self.links.len() + 1) * CHUNK_ROWS * 4 > self.max_rows * 3 {
                return false;
            }
            self.links.push_front(chunk());
            self.num_dropped -= 1;
        }
        if tokens[position] != SEPARATOR {
            let (hashes, count) = suffix_hashes(&tokens[..position]);
            for (order, &hash) in hashes[..count].iter().enumerate() {
                self.append(order, hash, position as u32);
            }
        }
        // What led to older positions leads nowhere until each of them is appended.
        self.first = position;
        true
    }

    /// Puts a position at the end of a chain; not behind more entries than a draft reads.
    fn append(&mut self, order: usize, hash: u32, position: u32) {
        let mut last = None;
        let mut next = self.head(order, hash);
        for _ in 0..MAX_NEWER {
            if next == 0 {
                match last {
                    None => self.row_of(hash)[order] = position,
                    Some(last) => self.links_mut(last as usize)[order] = position,
                }
                return;
            }
            last = Some(next);
            next = self.previous(order, next);
        }
    }

    /// Splits one bucket into four: each keeps its entries, in their order.
    fn split(&mut self, tokens: &[TokenId]) {
        let begun = begun(self.size);
        let bits = (self.size - begun) / NEW;
        let new = self.size;
        self.add_buckets(new + NEW);
        let mut moved = std::mem::take(&mut self.moved);
        for order in 0..ORDERS.len() {
            let first = self.heads_of(number(bits))[order];
            let mut rest = self.indexed(first);
            while rest != 0 && moved.len() < MAX_MOVED {
                let before = tokens[..rest as usize].iter().rev().copied();
                let hash = bits_of(suffix_hash(order, before));
                // From here on it is another bucket's, too.
                if hash & (begun - 1) != bits {
                    break;
                }
                let part = hash >> begun.trailing_zeros() & (FAN - 1);
                moved.push((rest, part as usize));
                rest = self.previous(order, rest);
            }
            let mut next = [rest; FAN as usize];
            for (position, part) in moved.drain(..).rev() {
                self.links_mut(position as usize)[order] = next[part];
                next[part] = position;
            }
            self.heads_of(number(bits))[order] = next[0];
            for (new, &next) in (new..).zip(&next[1..]) {
                self.heads_of(new)[order] = next;
            }
        }
        self.moved = moved;
    }

    fn add_buckets(&mut self, size: u32) {
        self.size = size;
        let chunks = (size as usize).div_ceil(CHUNK_ROWS);
        self.heads.resize_with(chunks.max(self.heads.len()), chunk);
    }

    /// The newest position in the bucket of `hash`; 0 = none.
    pub(super) fn head(&self, order: usize, hash: u32) -> u32 {
        if self.size == 0 {
            return 0;
        }
        let bucket = bucket(hash, self.size) as usize;
        self.indexed(self.heads[bucket / CHUNK_ROWS][bucket % CHUNK_ROWS][order])
    }

    /// The position before `position` in its bucket; 0 = none.
    pub(super) fn previous(&self, order: usize, position: u32) -> u32 {
        let index = (position as usize).checked_sub(self.num_dropped * CHUNK_ROWS);
        let chunk = index.and_then(|index| self.links.get(index / CHUNK_ROWS));
        chunk.map_or(0, |chunk| {
            self.indexed(chunk[position as usize % CHUNK_ROWS][order])
        })
    }

    /// A position if it is in the index, else 0.
    fn indexed(&self, position: u32) -> u32 {
        if (position as usize) < self.first {
            0
        } else {
            position
        }
    }

    fn links_mut(&mut self, position: usize) -> &mut Row {
        let chunk = position / CHUNK_ROWS - self.num_dropped;
        &mut self.links[chunk][position % CHUNK_ROWS]
    }

    fn heads_of(&mut self, bucket: u32) -> &mut Row {
        let bucket = bucket as usize;
        &mut self.heads[bucket / CHUNK_ROWS][bucket % CHUNK_ROWS]
    }

    fn row_of(&mut self, hash: u32) -> &mut Row {
        self.heads_of(bucket(hash, self.size))
    }
}
