//! Growing and shrinking the tables of an index, a bucket at a time, beside readers.
//!
//! A bucket that is split leaves its entries to two: each keeps its own, in their order. Readers
//! may follow a chain meanwhile. Every entry that they meet is compared with what they look for,
//! so the worst that can happen is that one draft misses some older occurrences.

use std::hint::black_box;
use std::sync::atomic::Ordering::{Relaxed, Release};

use crate::store::chains::{Chains, ORDERS};
use crate::store::heads::{self, bits_of, wanted};
use crate::store::sync::AtomicU32;
use crate::store::view::{View, block_of};

/// Most entries of a chain that are moved: more than a draft visits. A longer chain keeps the rest
/// in common.
const MAX_MOVED: usize = 1024;

/// Buckets whose entries are fetched together, and how many of each: about as many as there are.
const AHEAD: usize = 16;
const FETCHED: usize = 4;

/// Entries of a bucket.
#[derive(Debug, Default)]
struct Entries {
    /// Positions with their hashes, newest first.
    own: Vec<(u32, u32)>,
    /// Where the chain goes on, in common with other buckets.
    rest: u32,
}

impl Entries {
    fn is_empty(&self) -> bool {
        self.own.is_empty() && self.rest == 0
    }

    /// The newest whose hash `wanted` takes, or what is common.
    fn first(&self, wanted: impl Fn(u32) -> bool) -> u32 {
        let own = self.own.iter().find(|(_, hash)| wanted(*hash));
        own.map_or(self.rest, |&(position, _)| position)
    }
}

/// Room to move entries in, kept from one bucket to the next.
#[derive(Debug, Default)]
pub(crate) struct Moving {
    low: Entries,
    high: Entries,
}

impl View {
    /// Brings the tables up to `steps` buckets each nearer to the size that the text should have.
    /// The caller has the writers' turn.
    pub(crate) fn settle(&self, steps: usize, moving: &mut Moving) {
        let capacity = self.capacity();
        for order in 0..ORDERS.len() {
            let wanted = wanted(order, capacity).min(self.heads[order].capacity());
            for step in 0..steps {
                let size = self.heads[order].size();
                if size < wanted {
                    if step % AHEAD == 0 {
                        self.fetch(
                            order,
                            size,
                            AHEAD.min(steps - step).min((wanted - size) as usize),
                        );
                    }
                    self.split(order, moving);
                } else if size.div_ceil(2) > wanted {
                    self.merge(order, moving);
                } else {
                    break;
                }
            }
        }
    }

    /// Reads the first entries of the next buckets to be split, of all side by side: they lie far
    /// from each other, and would be waited for one by one.
    fn fetch(&self, order: usize, size: u32, count: usize) {
        let table = &self.heads[order];
        let low = size - (1 << size.ilog2());
        let mut positions = [0; AHEAD];
        for (position, bucket) in positions[..count].iter_mut().zip(low..) {
            *position = table
                .cell(bucket)
                .map_or(0, |head| self.live(head.load(Relaxed)));
        }
        for _ in 0..FETCHED {
            let mut fetched = 0;
            for position in positions.iter_mut().filter(|position| **position != 0) {
                fetched ^= self.token(*position - 1);
                let link = self.cell(order, *position);
                *position = link.map_or(0, |link| self.live(link.load(Relaxed)));
            }
            black_box(fetched);
        }
    }

    /// Gives empty tables the size that the text should have at once.
    pub(crate) fn spread(&self) {
        let capacity = self.capacity();
        for (order, table) in self.heads.iter().enumerate() {
            table.resize(wanted(order, capacity).min(table.capacity()));
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

    /// Adds a bucket, into which its share of the entries of another goes.
    fn split(&self, order: usize, moving: &mut Moving) {
        let table = &self.heads[order];
        let size = table.size();
        let half = 1 << size.ilog2();
        let Some(new) = table.cell(size) else { return };
        let Some(low) = self.gather(order, size - half, &mut moving.low) else {
            return;
        };
        let entries = &moving.low;
        // Readers of the new bucket find all of its entries, among others, from here on.
        new.store(
            self.address(entries.first(|hash| bits_of(hash) & half != 0)),
            Release,
        );
        table.resize(size + 1);
        low.store(
            self.address(entries.first(|hash| bits_of(hash) & half == 0)),
            Release,
        );
        let mut next = [entries.rest; 2];
        for &(position, hash) in entries.own.iter().rev() {
            let next = &mut next[usize::from(bits_of(hash) & half != 0)];
            self.lead(order, position, *next);
            *next = position;
        }
    }

    /// Takes the last bucket away; its entries go to the one that they came from.
    fn merge(&self, order: usize, moving: &mut Moving) {
        let table = &self.heads[order];
        let last = table.size() - 1;
        let Moving { low, high } = moving;
        let Some(old) = self.gather(order, last, high) else {
            return;
        };
        let Some(kept) = self.gather(order, last - (1 << last.ilog2()), low) else {
            return;
        };
        if !high.is_empty() {
            // What two chains have in common is further back than a draft reads: it is cut off.
            let mut next = if low.is_empty() { high.rest } else { 0 };
            let (mut lows, mut highs) = (&low.own[..], &high.own[..]);
            // The oldest first.
            loop {
                let (a, b) = (lows.last(), highs.last());
                let low_is_older = match (a, b) {
                    (Some(a), Some(b)) => block_of(a.0) < block_of(b.0),
                    (low, _) => low.is_some(),
                };
                let side = if low_is_older { &mut lows } else { &mut highs };
                let Some((&(position, _), rest)) = side.split_last() else {
                    break;
                };
                *side = rest;
                self.lead(order, position, next);
                next = position;
            }
            kept.store(self.address(next), Release);
        }
        table.resize(last);
        old.store(0, Relaxed);
    }

    /// Takes the entries of a bucket and gives its cell.
    fn gather(&self, order: usize, bucket: u32, entries: &mut Entries) -> Option<&AtomicU32> {
        let table = &self.heads[order];
        let (head, size) = (table.cell(bucket)?, table.size());
        entries.own.clear();
        let mut position = self.live(head.load(Relaxed));
        while position != 0 && entries.own.len() < MAX_MOVED {
            let hash = self.hash_at(order, position);
            // From here on it is another bucket's, too.
            if heads::bucket(hash, size) != bucket {
                break;
            }
            entries.own.push((position, hash));
            let link = self.cell(order, position);
            position = link.map_or(0, |link| self.older(position, link.load(Relaxed)));
        }
        entries.rest = position;
        Some(head)
    }

    /// Makes `position` lead to `next`.
    fn lead(&self, order: usize, position: u32, next: u32) {
        let address = self.address(next);
        if let Some(link) = self.cell(order, position)
            && link.load(Relaxed) != address
        {
            link.store(address, Release);
        }
    }
}
