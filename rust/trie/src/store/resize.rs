//! Growing and shrinking the tables of an index, a few buckets at a time, beside readers.
//!
//! A bucket that is split leaves its entries to four: each keeps its own, in their order. Readers
//! may follow a chain meanwhile. Every entry that they meet is compared with what they look for,
//! so the worst that can happen is that one draft misses some older occurrences.
//!
//! The entries of a bucket lie far from each other, and each would be waited for. So many buckets
//! are split together, and the next entries of all are fetched side by side.

use std::cmp::Reverse;
use std::hint::black_box;
use std::sync::atomic::Ordering::{Relaxed, Release};

use crate::store::buckets::{FAN, FIRST_BUCKETS, NEW, begun, bits_of, number, whole};
use crate::store::chains::ORDERS;
use crate::store::heads::wanted;
use crate::store::sync::AtomicU32;
use crate::store::view::View;

/// Most entries of a chain that are moved: more than a draft visits. A longer chain keeps the rest
/// in common.
const MAX_MOVED: usize = 256;

/// Buckets that are split together, and of how many of them an entry is fetched at the same time.
const TOGETHER: usize = 512;
const FETCHED: usize = 64;

/// Entries that there is room for at any time.
const KEPT_ENTRIES: usize = 4096;

/// A bucket whose entries are moved.
#[derive(Debug)]
struct Bucket {
    /// The low bits of all its hashes.
    bits: u32,
    /// The entry that is taken out next; in the end the first one in common with other buckets.
    rest: u32,
    num_moved: usize,
    /// The newest entry of each part so far; 0 = none.
    parts: [u32; FAN as usize],
}

impl Bucket {
    /// Where the chain of a part begins.
    fn first(&self, part: usize) -> u32 {
        match self.parts[part] {
            0 => self.rest,
            first => first,
        }
    }
}

/// An entry that is moved.
#[derive(Debug)]
struct Entry {
    position: u32,
    /// The index of its bucket, and its part of that.
    bucket: u16,
    part: u16,
}

/// What is moved together; kept from one time to the next.
#[derive(Debug, Default)]
pub(crate) struct Moving {
    buckets: Vec<Bucket>,
    /// Those whose entries are being taken out.
    open: Vec<u16>,
    /// Those of each bucket newest first.
    entries: Vec<Entry>,
}

impl Moving {
    /// Begins with buckets of these low bits and first entries.
    fn start(&mut self, buckets: impl Iterator<Item = (u32, u32)>) {
        self.entries.clear();
        self.entries.shrink_to(KEPT_ENTRIES);
        self.buckets.clear();
        self.buckets.extend(buckets.map(|(bits, first)| Bucket {
            bits,
            rest: first,
            num_moved: 0,
            parts: [0; FAN as usize],
        }));
    }
}

impl View {
    /// Brings the tables nearer to the size that the text should have: up to `most` buckets of each
    /// are split, or made of four again. The caller has the writers' turn.
    pub(crate) fn settle(&self, most: usize, moving: &mut Moving) {
        for (order, table) in self.heads.iter().enumerate() {
            let wanted = wanted(order, self.capacity()).min(table.capacity());
            let mut left = most;
            while left > 0 && table.size() > 0 {
                let size = table.size();
                if size + NEW <= wanted {
                    let begun = begun(size);
                    let until = wanted.min(FAN * begun);
                    let count = left.min(TOGETHER).min(((until - size) / NEW) as usize);
                    self.split(order, count, moving);
                    left -= count;
                } else if size > FIRST_BUCKETS && size.div_ceil(2) > wanted {
                    self.merge(order, moving);
                    left -= 1;
                } else {
                    break;
                }
            }
        }
    }

    /// Gives empty tables the size that the text should have at once.
    pub(crate) fn spread(&self) {
        for (order, table) in self.heads.iter().enumerate() {
            let wanted = wanted(order, self.capacity()).min(table.capacity());
            if wanted > 0 {
                table.resize(whole(wanted));
            }
        }
    }

    /// Empties the buckets numbered `from` up to `to` that lead to dropped blocks.
    pub(crate) fn sweep(&self, order: usize, from: u32, to: u32) {
        for bucket in from..to {
            if let Some(head) = self.heads[order].cell(bucket)
                && self.live(head.load(Relaxed)) == 0
            {
                head.store(0, Relaxed);
            }
        }
    }

    /// Splits the next `count` buckets, which have all been there when splitting began.
    fn split(&self, order: usize, count: usize, moving: &mut Moving) {
        let table = &self.heads[order];
        let size = table.size();
        let begun = begun(size);
        let first = (size - begun) / NEW;
        let split = first..first + count as u32;
        moving.start(split.map(|bits| (bits, self.first_entry(order, number(bits)))));
        self.gather(order, begun, moving);
        let Moving {
            buckets, entries, ..
        } = moving;
        // Readers of the new buckets find all of their entries, among others, from here on.
        for (bucket, new) in buckets.iter().zip((size..).step_by(NEW as usize)) {
            for part in 1..FAN {
                self.set_head(order, new + part - 1, bucket.first(part as usize));
            }
        }
        table.resize(size + NEW * count as u32);
        for bucket in &mut *buckets {
            self.set_head(order, number(bucket.bits), bucket.first(0));
            bucket.parts.fill(bucket.rest);
        }
        for entry in entries.iter().rev() {
            let next = &mut buckets[usize::from(entry.bucket)].parts[usize::from(entry.part)];
            self.lead(order, entry.position, *next);
            *next = entry.position;
        }
    }

    /// Takes the last buckets away; their entries go to the one that they came from.
    fn merge(&self, order: usize, moving: &mut Moving) {
        let table = &self.heads[order];
        let size = table.size() - NEW;
        let begun = begun(size);
        let kept = (size - begun) / NEW;
        let parts = (0..FAN).map(|part| part * begun + kept);
        moving.start(parts.map(|bits| (bits, self.first_entry(order, number(bits)))));
        self.gather(order, FAN * begun, moving);
        let Moving {
            buckets, entries, ..
        } = moving;
        let filled = |bucket: &&Bucket| bucket.num_moved > 0 || bucket.rest != 0;
        let mut rests = buckets.iter().filter(filled).map(|bucket| bucket.rest);
        // What several chains have in common is further back than a draft reads: it is cut off.
        let mut next = rests.next().unwrap_or(0);
        if rests.any(|rest| rest != next) {
            next = 0;
        }
        // The newest block first, in any order within a block.
        entries.sort_unstable_by_key(|entry| Reverse(entry.position));
        for entry in entries.iter().rev() {
            self.lead(order, entry.position, next);
            next = entry.position;
        }
        self.set_head(order, number(kept), next);
        table.resize(size);
        for bucket in size..size + NEW {
            self.set_head(order, bucket, 0);
        }
    }

    /// Takes the entries of the buckets out, in which all hashes have the same bits below `limit`.
    fn gather(&self, order: usize, limit: u32, moving: &mut Moving) {
        let Moving {
            buckets,
            open,
            entries,
        } = moving;
        let mut left = 0..buckets.len() as u16;
        let mut words = Vec::with_capacity(3 * FETCHED);
        loop {
            let more = left
                .by_ref()
                .filter(|&index| buckets[usize::from(index)].rest != 0);
            open.extend(more.take(FETCHED - open.len()));
            if open.is_empty() {
                return;
            }
            // Where they are first, so that nothing comes between the words that are waited for.
            words.clear();
            for &index in &*open {
                self.words_of(order, buckets[usize::from(index)].rest, &mut words);
            }
            black_box(words.iter().fold(0, |all, word| all ^ word.load(Relaxed)));
            open.retain(|&index| {
                let bucket = &mut buckets[usize::from(index)];
                let position = bucket.rest;
                let bits = bits_of(self.hash_at(order, position));
                // From here on it is another bucket's, too.
                if bits & (limit - 1) != bucket.bits {
                    return false;
                }
                let part = bits >> limit.trailing_zeros() & (FAN - 1);
                let first = &mut bucket.parts[part as usize];
                if *first == 0 {
                    *first = position;
                }
                entries.push(Entry {
                    position,
                    bucket: index,
                    part: part as u16,
                });
                bucket.num_moved += 1;
                let link = self.cell(order, position);
                bucket.rest = link.map_or(0, |link| self.older(position, link.load(Relaxed)));
                bucket.rest != 0 && bucket.num_moved < MAX_MOVED
            });
        }
    }

    /// Adds a word of each cache line that moving an entry reads: its link, and the ends of its
    /// context.
    fn words_of<'a>(&'a self, order: usize, position: u32, words: &mut Vec<&'a AtomicU32>) {
        let Some((block, cell)) = self.cell_at(position) else {
            return;
        };
        words.extend(block.link(order, cell));
        words.extend(block.word(cell - 1));
        words.extend(block.word(cell.wrapping_sub(ORDERS[order] as u32)));
    }

    /// The newest entry of a bucket.
    fn first_entry(&self, order: usize, bucket: u32) -> u32 {
        let head = self.heads[order].cell(bucket);
        head.map_or(0, |head| self.live(head.load(Relaxed)))
    }

    fn set_head(&self, order: usize, bucket: u32, position: u32) {
        if let Some(head) = self.heads[order].cell(bucket) {
            head.store(self.address(position), Release);
        }
    }

    /// Makes `position` lead to `next`.
    fn lead(&self, order: usize, position: u32, next: u32) {
        if let Some(link) = self.cell(order, position) {
            link.store(self.address(next), Release);
        }
    }
}
