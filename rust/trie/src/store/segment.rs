//! A bounded piece of a shared trie: one arena that readers walk while writers fill it.
//!
//! Every cell is an atomic and nothing that a reader can reach is ever changed back. A token is
//! written once, into a cell that held [`SEPARATOR`] and so ended the text before it; a link is
//! written before the head that leads to it. So a reader sees whole occurrences, or their start,
//! without waiting for anyone.
//!
//! Tokens are kept inverted, so that a cell that was never written, zero, holds the separator
//! (`u32::MAX`): then a new arena need not be filled, and costs its writer no time.

use std::io::{self, Write};
use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, PoisonError};

use crate::store::atomic_file::Checked;
use crate::store::chains::{Chains, ORDERS, bucket, suffix_hashes};
use crate::store::extent::Extent;
use crate::store::grant::Grant;
use crate::store::segment_shape::{HEAD_SHIFTS, SegmentShape};
use crate::store::sync::{AtomicU32, fill, set, zeroed};
use crate::{SEPARATOR, TokenId};

/// The smallest range of cells worth using again, and how many are remembered.
const MIN_SPARE_TOKENS: u32 = 32;
const MAX_SPARES: usize = 64;

/// Segments of one namespace, oldest first; the last one is written to.
pub(crate) type Segments = Arc<Vec<Arc<Segment>>>;

/// An append-only arena of tokens, links and heads. Writers take turns; any number of readers.
#[derive(Debug)]
pub(crate) struct Segment {
    id: u64,
    /// Inverted.
    tokens: Box<[AtomicU32]>,
    /// One of each order per token.
    links: Box<[AtomicU32]>,
    heads: [Box<[AtomicU32]>; ORDERS.len()],
    /// Cells that belong to an extent, their separators included.
    end: AtomicU32,
    /// Tokens that can be found.
    num_tokens: AtomicU32,
    /// Cells that an extent gave back from the middle, each range followed by a separator.
    spares: Mutex<Vec<Range<u32>>>,
    /// Accepted draft tokens that came from here, halved at each eviction.
    credit: AtomicU32,
    /// Of the bytes of this arena, returned when it is freed.
    grant: Grant,
}

impl Segment {
    /// An empty arena for `capacity` tokens, a power of two, for whose bytes there is a `grant`.
    pub(crate) fn new(id: u64, capacity: usize, grant: Grant) -> Self {
        debug_assert!(capacity.is_power_of_two());
        let segment = Self {
            id,
            tokens: zeroed(capacity),
            links: zeroed(capacity * ORDERS.len()),
            heads: HEAD_SHIFTS.map(|shift| zeroed(capacity >> shift)),
            end: AtomicU32::new(0),
            num_tokens: AtomicU32::new(0),
            spares: Mutex::default(),
            credit: AtomicU32::new(0),
            grant,
        };
        debug_assert_eq!(segment.bytes(), segment.grant.bytes());
        segment
    }

    /// Bytes of an arena for `capacity` tokens.
    pub(crate) fn bytes_for(capacity: usize) -> usize {
        let heads: usize = HEAD_SHIFTS.iter().map(|shift| capacity >> shift).sum();
        (capacity * (1 + ORDERS.len()) + heads) * size_of::<u32>()
    }

    /// Bytes of this arena, counted from what it owns.
    pub(crate) fn bytes(&self) -> usize {
        let heads: usize = self.heads.iter().map(|heads| heads.len()).sum();
        (self.tokens.len() + self.links.len() + heads) * size_of::<u32>()
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn capacity(&self) -> usize {
        self.tokens.len()
    }

    /// Tokens that can be found; those repeated as context are counted once.
    pub(crate) fn num_tokens(&self) -> u32 {
        self.num_tokens.load(Relaxed)
    }

    /// Tokens that a new extent can hold.
    pub(crate) fn room(&self) -> usize {
        (self.capacity() - self.end.load(Relaxed) as usize).saturating_sub(1)
    }

    /// Returns its bytes to the budget, since no namespace owns it any more.
    pub(crate) fn disown(&self) {
        self.grant.release();
    }

    pub(crate) fn credit(&self) -> u32 {
        self.credit.load(Relaxed)
    }

    pub(crate) fn add_credit(&self, tokens: u32) {
        self.credit.fetch_add(tokens, Relaxed);
    }

    pub(crate) fn halve_credit(&self) {
        self.credit.store(self.credit() / 2, Relaxed);
    }

    /// Sets cells aside for `count` tokens, or for as many as fit. The caller has the writers'
    /// turn, here and below.
    pub(crate) fn reserve(&self, count: usize) -> Extent {
        let mut spares = self.spares.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = spares.iter().position(|spare| spare.len() >= count) {
            let Range { start, end } = spares.swap_remove(index);
            return Extent::new(start, end);
        }
        let start = self.end.load(Relaxed);
        let end = start + count.min(self.room()) as u32;
        self.end.store(end + 1, Release);
        Extent::new(start, end)
    }

    /// Gives an extent room for up to `count` more tokens, when no other came after it.
    pub(crate) fn grow(&self, extent: &mut Extent, count: usize) {
        if extent.end + 1 == self.end.load(Relaxed) {
            extent.end += count.min(self.capacity() - extent.end as usize - 1) as u32;
            self.end.store(extent.end + 1, Release);
        }
    }

    /// Takes back what an extent did not use.
    pub(crate) fn release(&self, extent: &Extent) {
        // A reader may still walk the text before: its separator stays.
        let separator = u32::from(extent.next > extent.start);
        let free = extent.next + separator;
        if extent.end + 1 == self.end.load(Relaxed) {
            self.end.store(free, Release);
        } else if free + MIN_SPARE_TOKENS <= extent.end {
            let mut spares = self.spares.lock().unwrap_or_else(PoisonError::into_inner);
            if spares.len() == MAX_SPARES {
                spares.swap_remove(0);
            }
            spares.push(free..extent.end);
        }
    }

    /// Repeats tokens that can be found elsewhere, as context of those that follow.
    pub(crate) fn write_context(&self, extent: &mut Extent, context: &[TokenId]) {
        debug_assert!(context.len() <= extent.room());
        for &token in context {
            self.tokens[extent.next as usize].store(!token, Relaxed);
            extent.next += 1;
        }
    }

    /// Writes the tokens of `text` from `first` on, which follow those before in the extent, so
    /// that each can be found at once.
    pub(crate) fn write(&self, extent: &mut Extent, text: &[TokenId], first: usize) {
        debug_assert!(text.len() - first <= extent.room());
        for index in first..text.len() {
            let position = extent.next;
            self.tokens[position as usize].store(!text[index], Relaxed);
            extent.next += 1;
            self.link(position, &text[..index]);
        }
        self.num_tokens
            .fetch_add((text.len() - first) as u32, Relaxed);
    }

    /// Writes what a reader can reach now, while others write on.
    pub(crate) fn save<W: Write>(&self, writer: &mut Checked<W>) -> io::Result<SegmentShape> {
        // Heads first: what they lead to was written before them, so what is read after them
        // holds it all. Newer text may be there too, and cannot be found.
        let heads = self.heads.each_ref().map(|heads| {
            let heads = heads.iter().map(|head| head.load(Acquire));
            heads.collect::<Vec<_>>()
        });
        let shape = SegmentShape {
            capacity: self.capacity() as u32,
            end: self.end.load(Acquire),
            num_tokens: self.num_tokens(),
            credit: self.credit(),
        };
        let end = shape.end as usize;
        writer.write_words(self.tokens[..end].iter().map(|token| !token.load(Relaxed)))?;
        let links = &self.links[..end * ORDERS.len()];
        writer.write_words(links.iter().map(|link| link.load(Relaxed)))?;
        writer.write_words(heads.into_iter().flatten())?;
        writer.end_block()?;
        Ok(shape)
    }

    /// The segment that [`Segment::save`] wrote as `bytes`, its checksum not included, with
    /// `shape`; both are well-formed.
    pub(crate) fn load(id: u64, grant: Grant, shape: SegmentShape, bytes: &[u8]) -> Self {
        let mut segment = Self::new(id, shape.capacity as usize, grant);
        let end = shape.end as usize;
        let (words, _) = bytes.as_chunks::<4>();
        let mut words = words.iter().map(|word| u32::from_le_bytes(*word));
        let tokens = words.by_ref().take(end).map(|token| !token);
        fill(&mut segment.tokens, tokens);
        let links = words.by_ref().take(end * ORDERS.len());
        fill(&mut segment.links, links);
        for heads in &mut segment.heads {
            fill(heads, words.by_ref());
        }
        set(&mut segment.end, shape.end);
        set(&mut segment.num_tokens, shape.num_tokens);
        set(&mut segment.credit, shape.credit);
        segment
    }

    fn link(&self, position: u32, before: &[TokenId]) {
        let (hashes, count) = suffix_hashes(before);
        let first = position as usize * ORDERS.len();
        let links = &self.links[first..first + ORDERS.len()];
        for (order, &hash) in hashes[..count].iter().enumerate() {
            let heads = &self.heads[order];
            let head = &heads[bucket(hash, heads.len())];
            links[order].store(head.load(Relaxed), Relaxed);
            head.store(position, Release);
        }
    }
}

// Positions are checked, so that not even a snapshot made to deceive leads outside the arena.
impl Chains for Segment {
    fn end(&self) -> u32 {
        self.end.load(Acquire)
    }

    fn token(&self, position: u32) -> TokenId {
        let cell = self.tokens.get(position as usize);
        cell.map_or(SEPARATOR, |cell| !cell.load(Relaxed))
    }

    fn head(&self, order: usize, hash: u32) -> u32 {
        let heads = &self.heads[order];
        heads[bucket(hash, heads.len())].load(Acquire)
    }

    fn previous(&self, order: usize, position: u32) -> u32 {
        let link = self.links.get(position as usize * ORDERS.len() + order);
        link.map_or(0, |link| link.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::chains::{LIMITS, collect};

    fn segment(capacity: usize) -> Segment {
        Segment::new(0, capacity, Grant::unbounded(Segment::bytes_for(capacity)))
    }

    fn followers(segment: &Segment, context: &[TokenId]) -> Vec<(TokenId, u16)> {
        let mut found = Vec::new();
        collect(segment, 0, context, &mut LIMITS.clone(), &mut found);
        found.iter().map(|o| (o.next, o.matched)).collect()
    }

    #[test]
    fn bytes_are_those_of_the_arena() {
        let segment = segment(1024);
        assert_eq!(segment.bytes(), Segment::bytes_for(1024));
        assert_eq!(segment.bytes(), 27 * 1024);
    }

    #[test]
    fn repeated_context_is_not_indexed_twice() {
        let segment = segment(64);
        let mut extent = segment.reserve(5);
        // The first three tokens were indexed where they were first inserted.
        segment.write_context(&mut extent, &[1, 2, 3]);
        segment.write(&mut extent, &[1, 2, 3, 4, 5], 3);
        assert_eq!(followers(&segment, &[1, 2]), []);
        assert_eq!(followers(&segment, &[1, 2, 3]), [(4, 3)]);
        assert_eq!(followers(&segment, &[3, 4]), [(5, 2)]);
        assert_eq!(segment.num_tokens(), 2);
    }

    #[test]
    fn text_ends_where_an_extent_is_not_filled_yet() {
        let segment = segment(64);
        let mut first = segment.reserve(8);
        let mut second = segment.reserve(8);
        segment.write(&mut second, &[5, 6, 7], 0);
        segment.write(&mut first, &[5, 6], 0);
        assert_eq!(followers(&segment, &[5]), [(6, 1), (6, 1)]);
        assert_eq!(followers(&segment, &[5, 6]), [(7, 2)]);
        segment.write(&mut first, &[5, 6, 8], 2);
        assert_eq!(followers(&segment, &[5, 6]), [(8, 2), (7, 2)]);
    }

    #[test]
    fn unused_cells_at_the_end_come_back() {
        let segment = segment(64);
        let mut first = segment.reserve(10);
        segment.write(&mut first, &[1, 2, 3], 0);
        assert_eq!(
            segment.room(),
            52,
            "each extent has a separator, a new one needs its own"
        );
        segment.release(&first);
        assert_eq!(segment.room(), 59);
        assert_eq!(segment.token(3), SEPARATOR);
        let empty = segment.reserve(10);
        segment.release(&empty);
        assert_eq!(segment.room(), 59);
        let mut second = segment.reserve(2);
        segment.grow(&mut second, 3);
        assert_eq!((second.room(), segment.room()), (5, 53));
        let third = segment.reserve(100);
        assert_eq!((third.room(), segment.room()), (53, 0));
        segment.grow(&mut second, 3);
        assert_eq!(second.room(), 5, "another follows");
    }

    #[test]
    fn unused_cells_in_the_middle_are_used_again() {
        let segment = segment(256);
        let mut first = segment.reserve(64);
        segment.write(&mut first, &[1, 2, 3], 0);
        let second = segment.reserve(64);
        let room = segment.room();
        segment.release(&first);
        let mut third = segment.reserve(60);
        assert_eq!((third.room(), segment.room()), (60, room));
        segment.write(&mut third, &[3, 4], 0);
        let found = followers(&segment, &[2, 3]);
        assert_eq!(found, [(4, 1)], "a separator parts it from the text before");
        segment.release(&second);
        assert_eq!(segment.room(), 255 - 65);
    }
}
