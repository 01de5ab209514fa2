//! Recycled tokens: the model's latest runner-up tokens by the last token and by the last pair.
//!
//! Every row that a forward computes, accepted or not, gives the model's likeliest next tokens in
//! its own words (Token Recycling, arXiv 2408.08696, keyed by pairs as well). The newest answer
//! for a key replaces the older one.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError, RwLock};

use spectrie_types::sizes::TOP_K;

use crate::TokenId;
use crate::store::grant::Grant;

/// Slots that a key may take, one after the other.
const WAYS: usize = 4;

/// Probabilities are kept in steps of 1 / 65535.
const STEPS: f32 = 65535.0;

/// Bits of an entry that hold its probability, and those that hold a check of its key.
const PROBABILITY_BITS: u32 = 16;
const CHECK_BITS: u32 = 16;

/// One key and its answer. Every cell is complete in itself, so that a reader who meets a writer
/// at worst sees tokens of two answers to the same key: each entry repeats a part of the key.
#[derive(Debug, Default)]
struct Slot {
    key: AtomicU64,
    entries: [AtomicU64; TOP_K],
}

/// A table of fixed size, written and read by any number of threads.
#[derive(Debug)]
pub(crate) struct Recycled {
    slots: Box<[Slot]>,
    /// Leave to own the bytes, for a table that a namespace owns.
    _grant: Option<Grant>,
}

/// The likeliest tokens after a key, descending.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Answer {
    tokens: [(TokenId, f32); TOP_K],
    len: usize,
}

impl Answer {
    /// The tokens before the first probability of 0, [`TOP_K`] at most.
    pub(crate) fn of(tokens: &[(TokenId, f32)]) -> Self {
        let mut answer = Self::default();
        let likely = tokens.iter().take_while(|(_, given)| *given > 0.0);
        for (entry, &token) in answer.tokens.iter_mut().zip(likely) {
            *entry = token;
            answer.len += 1;
        }
        answer
    }

    pub(crate) fn tokens(&self) -> &[(TokenId, f32)] {
        &self.tokens[..self.len]
    }
}

fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    (value ^ (value >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

/// The key of a pair, or of the last token alone; never 0, which marks a free slot.
fn key(before: Option<TokenId>, last: TokenId) -> u64 {
    mix(u64::from(last) | u64::from(before.map_or(0, |token| token.wrapping_add(1))) << 32).max(1)
}

impl Recycled {
    /// A table for `keys` keys, a power of two of at least [`WAYS`], which `grant` lets it own.
    pub(crate) fn new(keys: usize, grant: Option<Grant>) -> Self {
        debug_assert!(keys.is_power_of_two() && keys >= WAYS);
        Self {
            slots: (0..keys).map(|_| Slot::default()).collect(),
            _grant: grant,
        }
    }

    /// Bytes of a table for `keys` keys.
    pub(crate) const fn bytes_for(keys: usize) -> usize {
        keys * size_of::<Slot>()
    }

    /// Notes what the model gave after `last`, whose predecessor is `before`.
    pub(crate) fn put(&self, before: Option<TokenId>, last: TokenId, top: &[(TokenId, f32)]) {
        self.write(key(None, last), top);
        if before.is_some() {
            self.write(key(before, last), top);
        }
    }

    /// The newest answer for the pair, and the newest for the last token alone.
    pub(crate) fn get(&self, before: Option<TokenId>, last: TokenId) -> [Option<Answer>; 2] {
        [self.after_pair(before, last), self.read(key(None, last))]
    }

    /// The newest answer for the pair.
    pub(crate) fn after_pair(&self, before: Option<TokenId>, last: TokenId) -> Option<Answer> {
        before.and_then(|_| self.read(key(before, last)))
    }

    /// The slots a key may be in.
    fn ways(&self, key: u64) -> &[Slot] {
        let first = (key >> 20) as usize & (self.slots.len() - 1) & !(WAYS - 1);
        &self.slots[first..first + WAYS]
    }

    fn write(&self, key: u64, top: &[(TokenId, f32)]) {
        let ways = self.ways(key);
        let slot = ways
            .iter()
            .find(|slot| matches!(slot.key.load(Relaxed), 0) || slot.key.load(Relaxed) == key)
            // All taken: which one goes depends on the newcomer, so that no key stays indefinitely.
            .unwrap_or(&ways[(key >> 16) as usize % WAYS]);
        slot.key.store(key, Relaxed);
        for (index, cell) in slot.entries.iter().enumerate() {
            let entry = top.get(index).map_or(0, |&(token, probability)| {
                let steps = (probability.clamp(0.0, 1.0) * STEPS).ceil() as u64;
                u64::from(token) << (PROBABILITY_BITS + CHECK_BITS)
                    | steps << CHECK_BITS
                    | (key & 0xFFFF)
            });
            cell.store(entry, Relaxed);
        }
    }

    fn read(&self, key: u64) -> Option<Answer> {
        let slot = self
            .ways(key)
            .iter()
            .find(|slot| slot.key.load(Relaxed) == key)?;
        let mut answer = Answer::default();
        for cell in &slot.entries {
            let entry = cell.load(Relaxed);
            let steps = (entry >> CHECK_BITS) & 0xFFFF;
            if steps == 0 || entry & 0xFFFF != key & 0xFFFF {
                break;
            }
            let token = (entry >> (PROBABILITY_BITS + CHECK_BITS)) as TokenId;
            answer.tokens[answer.len] = (token, steps as f32 / STEPS);
            answer.len += 1;
        }
        Some(answer)
    }
}

/// Keys of a namespace's table: 9 MiB, as far as its budget holds them.
const SHARED_KEYS: [usize; 3] = [128 << 10, 16 << 10, 2 << 10];

/// The table of a namespace, made when the first answer comes.
#[derive(Debug, Default)]
pub(crate) struct SharedRecycled {
    /// Held for as long as it takes to copy or swap one pointer.
    table: RwLock<Option<Arc<Recycled>>>,
}

impl SharedRecycled {
    pub(crate) fn table(&self) -> Option<Arc<Recycled>> {
        self.table
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Notes an answer, in the largest table that `grant` lets it own.
    pub(crate) fn put(
        &self,
        before: Option<TokenId>,
        last: TokenId,
        top: &[(TokenId, f32)],
        grant: impl Fn(usize) -> Option<Grant>,
    ) {
        let table = self.table().or_else(|| {
            let (keys, grant) = SHARED_KEYS
                .into_iter()
                .find_map(|keys| Some((keys, grant(Recycled::bytes_for(keys))?)))?;
            let made = Arc::new(Recycled::new(keys, Some(grant)));
            let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
            Some(Arc::clone(table.get_or_insert(made)))
        });
        if let Some(table) = table {
            table.put(before, last, top);
        }
    }

    pub(crate) fn forget(&self) {
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(crate) fn bytes(&self) -> usize {
        self.table()
            .map_or(0, |table| Recycled::bytes_for(table.slots.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(answer: Option<Answer>) -> Vec<TokenId> {
        answer
            .map(|answer| answer.tokens().iter().map(|&(token, _)| token).collect())
            .unwrap_or_default()
    }

    #[test]
    fn the_newest_answer_is_found_by_pair_and_by_last_token() {
        let recycled = Recycled::new(64, None);
        recycled.put(Some(1), 2, &[(7, 0.5), (8, 0.25)]);
        recycled.put(Some(3), 2, &[(9, 0.75)]);
        let [pair, last] = recycled.get(Some(1), 2);
        assert_eq!((tokens(pair), tokens(last)), (vec![7, 8], vec![9]));
        let [pair, last] = recycled.get(Some(4), 2);
        assert_eq!((tokens(pair), tokens(last)), (vec![], vec![9]));
        assert!(recycled.get(None, 5)[1].is_none());
    }

    #[test]
    fn probabilities_survive_within_a_step() {
        let recycled = Recycled::new(64, None);
        recycled.put(None, 2, &[(7, 0.625), (8, 1e-9)]);
        let answer = recycled.get(None, 2)[1].unwrap();
        let [first, second] = answer.tokens() else {
            panic!("two tokens were put")
        };
        assert!((first.1 - 0.625).abs() <= 1.0 / STEPS && second.1 > 0.0);
    }

    #[test]
    fn a_full_table_takes_new_keys() {
        let recycled = Recycled::new(8, None);
        for token in 0..1000 {
            recycled.put(None, token, &[(token + 1, 0.9)]);
            assert_eq!(tokens(recycled.get(None, token)[1]), [token + 1]);
        }
    }
}
