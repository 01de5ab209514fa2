//! The slots of a table: one key and its answer each.

use std::sync::atomic::Ordering::Relaxed;

use spectrie_types::sizes::TOP_K;

use super::answer::Answer;
use crate::TokenId;
use crate::store::grant::Grant;
use crate::store::sync::{AtomicU64, zeroed_long};

/// Slots that a key may take, one after the other.
pub(super) const WAYS: usize = 4;

/// Words of a slot: the key and the entries of its answer.
const SLOT_WORDS: usize = 1 + TOP_K;

/// Bytes of a slot.
pub(super) const SLOT_BYTES: usize = SLOT_WORDS * size_of::<u64>();

/// Probabilities are kept in steps of 1 / 65535.
pub(super) const STEPS: f32 = 65535.0;

/// Bits of an entry that hold its probability, and those that hold a check of its key.
const PROBABILITY_BITS: u32 = 16;
const CHECK_BITS: u32 = 16;

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// A free slot was taken.
    New,
    /// The key had a slot.
    Again,
    /// Another key lost its slot.
    Replaced,
}

/// A part of a table, written and read by any number of threads. Every word is complete in
/// itself, so that a reader who meets a writer at worst sees tokens of two answers to the same key:
/// each entry repeats a part of the key.
#[derive(Debug)]
pub(super) struct Slots {
    words: Box<[AtomicU64]>,
    pub(super) grant: Grant,
}

impl Slots {
    /// Free slots for as many keys as `grant` has bytes for.
    pub(super) fn new(grant: Grant) -> Self {
        let words = grant.bytes() / SLOT_BYTES * SLOT_WORDS;
        Self {
            words: zeroed_long(words),
            grant,
        }
    }

    /// Returns the bytes to the budget, since no table owns them any more.
    pub(super) fn disown(&self) {
        self.grant.release();
    }

    /// The slots of a bucket, each a key and its entries.
    fn ways(&self, bucket: usize) -> impl Iterator<Item = &[AtomicU64]> {
        let first = bucket * WAYS * SLOT_WORDS;
        self.words[first..first + WAYS * SLOT_WORDS].chunks_exact(SLOT_WORDS)
    }

    fn slot(&self, bucket: usize, way: usize) -> &[AtomicU64] {
        let first = (bucket * WAYS + way) * SLOT_WORDS;
        &self.words[first..first + SLOT_WORDS]
    }

    /// Keeps an answer to `key`, which is not 0.
    pub(super) fn write(&self, bucket: usize, key: u64, top: &[(TokenId, f32)]) -> Written {
        let (slot, written) = self.slot_for(bucket, key);
        slot[0].store(key, Relaxed);
        for (index, cell) in slot[1..].iter().enumerate() {
            let entry = top.get(index).map_or(0, |&(token, probability)| {
                let steps = (probability.clamp(0.0, 1.0) * STEPS).ceil() as u64;
                u64::from(token) << (PROBABILITY_BITS + CHECK_BITS)
                    | steps << CHECK_BITS
                    | (key & 0xFFFF)
            });
            cell.store(entry, Relaxed);
        }
        written
    }

    fn slot_for(&self, bucket: usize, key: u64) -> (&[AtomicU64], Written) {
        for slot in self.ways(bucket) {
            match slot[0].load(Relaxed) {
                0 => return (slot, Written::New),
                found if found == key => return (slot, Written::Again),
                _ => {}
            }
        }
        // All taken: which one goes depends on the newcomer, so that no key stays for ever.
        let way = (key >> 16) as usize % WAYS;
        (self.slot(bucket, way), Written::Replaced)
    }

    /// The answer to `key`.
    pub(super) fn read(&self, bucket: usize, key: u64) -> Option<Answer> {
        let slot = self
            .ways(bucket)
            .find(|slot| slot[0].load(Relaxed) == key)?;
        let mut answer = Answer::default();
        for cell in &slot[1..] {
            let entry = cell.load(Relaxed);
            let steps = (entry >> CHECK_BITS) & 0xFFFF;
            if steps == 0 || entry & 0xFFFF != key & 0xFFFF {
                break;
            }
            let token = (entry >> (PROBABILITY_BITS + CHECK_BITS)) as TokenId;
            answer.push((token, steps as f32 / STEPS));
        }
        Some(answer)
    }

    /// Frees the slots of a bucket whose keys `leaves` says go, and gives each with its answer.
    pub(super) fn take(
        &self,
        bucket: usize,
        leaves: impl Fn(u64) -> bool,
    ) -> impl Iterator<Item = (u64, Answer)> {
        self.ways(bucket).filter_map(move |slot| {
            let key = slot[0].load(Relaxed);
            let answer = (key != 0 && leaves(key)).then(|| self.read(bucket, key))?;
            slot[0].store(0, Relaxed);
            Some((key, answer?))
        })
    }
}
