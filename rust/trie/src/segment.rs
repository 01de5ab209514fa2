//! A bounded piece of a shared trie: one arena that readers walk while a writer appends.
//!
//! Every cell is an atomic and nothing that a reader can reach is ever changed back: tokens are
//! written once, then published by a release store of the end; a link is written before the head
//! that leads to it. So a reader sees whole occurrences without waiting for anyone.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicUsize};

use crate::chains::{Chains, ORDERS, suffix_hashes};
use crate::text::bucket;
use crate::{SEPARATOR, TokenId};

/// Heads per token of capacity, as right shifts: few distinct single tokens, many longer contexts.
const HEAD_SHIFTS: [u32; ORDERS.len()] = [2, 1, 1, 1];

/// Tokens written before they are published together.
const PUBLISH_TOKENS: usize = 64;

/// An append-only arena of tokens, links and heads. One writer at a time; any number of readers.
#[derive(Debug)]
pub(crate) struct Segment {
    id: u64,
    tokens: Box<[AtomicU32]>,
    links: Box<[[AtomicU32; ORDERS.len()]]>,
    heads: [Box<[AtomicU32]>; ORDERS.len()],
    end: AtomicU32,
    /// Accepted draft tokens that came from here, halved at each eviction.
    credit: AtomicU32,
    /// The pool's count of bytes, lowered when the arena is freed.
    used_bytes: Arc<AtomicUsize>,
}

fn cells(count: usize) -> Box<[AtomicU32]> {
    (0..count).map(|_| AtomicU32::new(0)).collect()
}

impl Segment {
    /// An empty arena for `capacity` tokens, a power of two, whose bytes the caller has already
    /// added to `used_bytes`.
    pub(crate) fn new(id: u64, capacity: usize, used_bytes: Arc<AtomicUsize>) -> Self {
        debug_assert!(capacity.is_power_of_two());
        Self {
            id,
            tokens: cells(capacity),
            links: (0..capacity)
                .map(|_| [const { AtomicU32::new(0) }; ORDERS.len()])
                .collect(),
            heads: HEAD_SHIFTS.map(|shift| cells(capacity >> shift)),
            end: AtomicU32::new(0),
            credit: AtomicU32::new(0),
            used_bytes,
        }
    }

    /// Bytes of an arena for `capacity` tokens.
    pub(crate) fn bytes_for(capacity: usize) -> usize {
        let heads: usize = HEAD_SHIFTS.iter().map(|shift| capacity >> shift).sum();
        (capacity * (1 + ORDERS.len()) + heads) * size_of::<AtomicU32>()
    }

    /// Bytes of this arena, counted from what it owns.
    pub(crate) fn bytes(&self) -> usize {
        let heads: usize = self.heads.iter().map(|heads| size_of_val(&**heads)).sum();
        size_of_val(&*self.tokens) + size_of_val(&*self.links) + heads
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn capacity(&self) -> usize {
        self.tokens.len()
    }

    /// Tokens that still fit, the document's separator not counted.
    pub(crate) fn room(&self) -> usize {
        (self.capacity() - self.end.load(Acquire) as usize).saturating_sub(1)
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

    /// Appends one document, or the part of one whose first `context` tokens serve only as
    /// context. The caller is the only writer and has checked [`Segment::room`].
    pub(crate) fn append(&self, document: &[TokenId], context: usize) {
        debug_assert!(document.len() <= self.room());
        let start = self.end.load(Relaxed) as usize;
        for first in (0..document.len()).step_by(PUBLISH_TOKENS) {
            let last = (first + PUBLISH_TOKENS).min(document.len());
            for (cell, &token) in self.tokens[start + first..]
                .iter()
                .zip(&document[first..last])
            {
                cell.store(token, Relaxed);
            }
            self.end.store((start + last) as u32, Release);
            for index in first.max(context)..last {
                self.link(start + index, &document[..index]);
            }
        }
        self.tokens[start + document.len()].store(SEPARATOR, Relaxed);
        self.end.store((start + document.len() + 1) as u32, Release);
    }

    fn link(&self, position: usize, before: &[TokenId]) {
        let (hashes, found) = suffix_hashes(before);
        for (order, &hash) in hashes[..found].iter().enumerate() {
            let heads = &self.heads[order];
            let head = &heads[bucket(hash, heads.len())];
            self.links[position][order].store(head.load(Relaxed), Relaxed);
            head.store(position as u32, Release);
        }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        self.used_bytes.fetch_sub(self.bytes(), Relaxed);
    }
}

impl Chains for Segment {
    fn end(&self) -> u32 {
        self.end.load(Acquire)
    }

    fn token(&self, position: u32) -> TokenId {
        self.tokens[position as usize].load(Relaxed)
    }

    fn head(&self, order: usize, hash: u32) -> u32 {
        let heads = &self.heads[order];
        heads[bucket(hash, heads.len())].load(Acquire)
    }

    fn previous(&self, order: usize, position: u32) -> u32 {
        self.links[position as usize][order].load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chains::{LIMITS, collect};

    #[test]
    fn bytes_are_those_of_the_arena_and_return_when_it_is_dropped() {
        let used = Arc::new(AtomicUsize::new(Segment::bytes_for(1024)));
        let segment = Segment::new(0, 1024, Arc::clone(&used));
        assert_eq!(segment.bytes(), Segment::bytes_for(1024));
        assert_eq!(segment.bytes(), 27 * 1024);
        drop(segment);
        assert_eq!(used.load(Relaxed), 0);
    }

    #[test]
    fn repeated_context_is_not_indexed_twice() {
        let used = Arc::new(AtomicUsize::new(Segment::bytes_for(64)));
        let segment = Segment::new(0, 64, used);
        // The first three tokens were indexed where they were first taught.
        segment.append(&[1, 2, 3, 4, 5], 3);
        let followers = |context: &[TokenId]| {
            let mut found = Vec::new();
            collect(&segment, 0, context, &mut LIMITS.clone(), &mut found);
            found
                .iter()
                .map(|o| (o.next, o.matched))
                .collect::<Vec<_>>()
        };
        assert_eq!(followers(&[1, 2]), []);
        assert_eq!(followers(&[1, 2, 3]), [(4, 3)]);
        assert_eq!(followers(&[3, 4]), [(5, 2)]);
    }

    #[test]
    fn room_counts_the_separator() {
        let used = Arc::new(AtomicUsize::new(Segment::bytes_for(64)));
        let segment = Segment::new(0, 64, used);
        assert_eq!(segment.room(), 63);
        segment.append(&[1, 2, 3], 0);
        assert_eq!(segment.room(), 59);
        assert_eq!(segment.token(3), SEPARATOR);
    }
}
