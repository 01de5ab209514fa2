//! A table of answers, in parts that are added and dropped whole.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use super::answer::Answer;
use super::slots::{SLOT_BYTES, Slots, WAYS, Written};
use crate::TokenId;
use crate::store::grant::Grant;

/// Buckets of the first part. Each further part makes the table [`GROWTH`] times as large.
const FIRST_BUCKETS: usize = 64;
const GROWTH: usize = 4;

/// Keys of the smallest table.
pub(crate) const FIRST_KEYS: usize = FIRST_BUCKETS * WAYS;

/// Buckets whose keys go to their new places with each answer, after the table has grown.
const MOVED_AT_ONCE: usize = 8;

/// What a table is used for, in all its sizes.
#[derive(Debug, Default)]
struct Use {
    /// Slots taken.
    filled: AtomicUsize,
    /// Answers that came while the table was crowded.
    crowded: AtomicUsize,
}

/// A table, written and read by any number of threads.
#[derive(Debug)]
pub(crate) struct Recycled {
    parts: Vec<Arc<Slots>>,
    /// In all parts; [`FIRST_BUCKETS`] times a power of [`GROWTH`].
    buckets: usize,
    /// Buckets from whose number on keys of the table before may still be where that had them.
    moved: AtomicUsize,
    uses: Use,
}

fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    (value ^ (value >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

/// The key of a pair, or of the last token alone; never 0, which marks a free slot.
fn key(before: Option<TokenId>, last: TokenId) -> u64 {
    mix(u64::from(last) | u64::from(before.map_or(0, |token| token.wrapping_add(1))) << 32).max(1)
}

/// The bucket of `key` among so many.
fn bucket(key: u64, buckets: usize) -> usize {
    (key >> 22) as usize & (buckets - 1)
}

impl Recycled {
    /// The smallest table, whose [`Recycled::FIRST_BYTES`] `grant` lets it own.
    pub(crate) fn new(grant: Grant) -> Self {
        debug_assert_eq!(grant.bytes(), Self::FIRST_BYTES);
        Self {
            parts: vec![Arc::new(Slots::new(grant))],
            buckets: FIRST_BUCKETS,
            moved: AtomicUsize::new(usize::MAX),
            uses: Use::default(),
        }
    }

    /// Bytes of the smallest table.
    pub(crate) const FIRST_BYTES: usize = FIRST_KEYS * SLOT_BYTES;

    /// Keys that there is room for.
    pub(crate) fn keys(&self) -> usize {
        self.buckets * WAYS
    }

    /// Bytes that it owns.
    pub(crate) fn bytes(&self) -> usize {
        self.keys() * SLOT_BYTES
    }

    /// Bytes that it needs to grow.
    pub(crate) fn growth_bytes(&self) -> usize {
        self.bytes() * (GROWTH - 1)
    }

    /// This table with a further part, whose [`Recycled::growth_bytes`] `grant` lets it own. Both
    /// share the parts there are.
    pub(crate) fn grown(&self, grant: Grant) -> Self {
        debug_assert_eq!(grant.bytes(), self.growth_bytes());
        let mut parts = self.parts.clone();
        parts.push(Arc::new(Slots::new(grant)));
        Self {
            parts,
            buckets: self.buckets * GROWTH,
            moved: AtomicUsize::new(0),
            uses: Use {
                filled: AtomicUsize::new(self.uses.filled.load(Relaxed)),
                crowded: AtomicUsize::new(0),
            },
        }
    }

    /// This table without its last part, whose bytes go back; `None` if it has only one. The keys
    /// that were elsewhere stay.
    pub(crate) fn shrunk(&self) -> Option<Self> {
        let (last, parts) = self
            .parts
            .split_last()
            .filter(|(_, rest)| !rest.is_empty())?;
        last.disown();
        Some(Self {
            parts: parts.to_vec(),
            buckets: self.buckets / GROWTH,
            moved: AtomicUsize::new(usize::MAX),
            uses: Use {
                filled: AtomicUsize::new(self.uses.filled.load(Relaxed) / GROWTH),
                crowded: AtomicUsize::new(0),
            },
        })
    }

    /// Returns all bytes to the budget, since nobody owns the table any more.
    pub(crate) fn disown(&self) {
        self.parts.iter().for_each(|part| part.disown());
    }

    /// Whether it is time to ask for a larger table: once when three of eight slots are taken, and
    /// again after as many answers as there are slots.
    pub(crate) fn wants_to_grow(&self) -> bool {
        self.uses.filled.load(Relaxed) * 8 >= self.keys() * 3
            && self
                .uses
                .crowded
                .fetch_add(1, Relaxed)
                .is_multiple_of(self.keys())
    }

    /// Notes what the model gave after `last`, whose predecessor is `before`.
    pub(crate) fn put(&self, before: Option<TokenId>, last: TokenId, top: &[(TokenId, f32)]) {
        self.move_some();
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

    /// The part that holds a bucket, and its number there.
    fn part(&self, bucket: usize) -> (&Slots, usize) {
        let times = bucket / FIRST_BUCKETS;
        if times == 0 {
            return (&self.parts[0], bucket);
        }
        let growths = times.ilog2() / GROWTH.ilog2();
        let first = FIRST_BUCKETS << (growths * GROWTH.ilog2());
        (&self.parts[growths as usize + 1], bucket - first)
    }

    fn write(&self, key: u64, top: &[(TokenId, f32)]) {
        let (slots, place) = self.part(bucket(key, self.buckets));
        if slots.write(place, key, top) == Written::New {
            self.uses.filled.fetch_add(1, Relaxed);
        }
    }

    fn read(&self, key: u64) -> Option<Answer> {
        let (slots, place) = self.part(bucket(key, self.buckets));
        slots.read(place, key).or_else(|| {
            // The table before had it elsewhere, and it may be there still.
            let old = bucket(key, self.buckets / GROWTH);
            let (slots, place) = self.part(old);
            (old >= self.moved.load(Relaxed)).then(|| slots.read(place, key))?
        })
    }

    /// Moves the keys of some buckets to where this table has them.
    fn move_some(&self) {
        let old_buckets = self.buckets / GROWTH;
        if self.moved.load(Relaxed) >= old_buckets {
            return;
        }
        let first = self.moved.fetch_add(MOVED_AT_ONCE, Relaxed);
        for old in first..(first + MOVED_AT_ONCE).min(old_buckets) {
            let (slots, place) = self.part(old);
            let leaves = |key| bucket(key, self.buckets) != old;
            for (key, answer) in slots.take(place, leaves) {
                self.uses.filled.fetch_sub(1, Relaxed);
                let (slots, place) = self.part(bucket(key, self.buckets));
                // What came since the table has grown is newer.
                if slots.read(place, key).is_none() {
                    self.write(key, answer.tokens());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::recycled::slots::STEPS;

    fn table(growths: usize) -> Recycled {
        let mut table = Recycled::new(Grant::unbounded(Recycled::FIRST_BYTES));
        for _ in 0..growths {
            table = grown(&table);
        }
        table
    }

    fn grown(table: &Recycled) -> Recycled {
        table.grown(Grant::unbounded(table.growth_bytes()))
    }

    fn tokens(answer: Option<Answer>) -> Vec<TokenId> {
        answer
            .map(|answer| answer.tokens().iter().map(|&(token, _)| token).collect())
            .unwrap_or_default()
    }

    #[test]
    fn the_newest_answer_is_found_by_pair_and_by_last_token() {
        let recycled = table(0);
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
        let recycled = table(0);
        recycled.put(None, 2, &[(7, 0.625), (8, 1e-9)]);
        let answer = recycled.get(None, 2)[1].unwrap();
        let [first, second] = answer.tokens() else {
            panic!("two tokens were put")
        };
        assert!((first.1 - 0.625).abs() <= 1.0 / STEPS && second.1 > 0.0);
    }

    #[test]
    fn a_full_table_takes_new_keys() {
        let recycled = table(0);
        for token in 0..10_000 {
            recycled.put(None, token, &[(token + 1, 0.9)]);
            assert_eq!(tokens(recycled.get(None, token)[1]), [token + 1]);
        }
    }

    #[test]
    fn every_bucket_has_a_place_of_its_own() {
        let table = table(3);
        let mut seen = std::collections::HashSet::new();
        for bucket in 0..table.buckets {
            let (slots, place) = table.part(bucket);
            assert!(seen.insert((std::ptr::from_ref(slots), place)));
            assert!(slots.read(place, 1).is_none(), "it is inside its part");
        }
        assert_eq!(table.bytes(), table.keys() * 72);
    }

    #[test]
    fn a_table_that_grows_keeps_its_answers_while_they_move_and_after() {
        let mut recycled = table(0);
        // So few that none takes the place of another.
        for token in 0..40 {
            recycled.put(None, token, &[(token + 1, 0.9)]);
        }
        for size in 1..4 {
            recycled = grown(&recycled);
            for round in 0..FIRST_BUCKETS * GROWTH.pow(size) {
                for token in 0..40 {
                    let found = tokens(recycled.get(None, token)[1]);
                    assert_eq!(found, [token + 1], "{round} of size {size}");
                }
                recycled.put(None, 1_000, &[(5, 0.5)]);
            }
            assert!(recycled.moved.load(Relaxed) >= recycled.buckets / GROWTH);
        }
        assert_eq!(recycled.uses.filled.load(Relaxed), 41);
    }

    #[test]
    fn a_newer_answer_is_not_replaced_by_one_that_moves() {
        let recycled = table(0);
        for token in 0..40 {
            recycled.put(None, token, &[(1, 0.9)]);
        }
        let recycled = grown(&recycled);
        for token in 0..40 {
            recycled.put(None, token, &[(2, 0.9)]);
        }
        for token in 0..40 {
            assert_eq!(tokens(recycled.get(None, token)[1]), [2]);
        }
    }

    #[test]
    fn a_table_that_shrinks_keeps_a_part_and_gives_bytes_back() {
        let recycled = table(1);
        for token in 0..200 {
            recycled.put(None, token, &[(token + 1, 0.9)]);
        }
        let small = recycled.shrunk().unwrap();
        let kept = (0..200).filter(|&token| tokens(small.get(None, token)[1]) == [token + 1]);
        assert!((20..100).contains(&kept.count()));
        assert_eq!(small.bytes(), Recycled::FIRST_BYTES);
        assert_eq!(recycled.parts[1].grant.bytes(), 0);
        assert!(small.shrunk().is_none());
    }

    #[test]
    fn a_crowded_table_asks_once_and_then_from_time_to_time() {
        let recycled = table(0);
        let asked = (0..1_000).filter(|&token| {
            recycled.put(None, token, &[(1, 0.9)]);
            recycled.wants_to_grow()
        });
        // When 96 of 256 slots are taken, and every 256 answers from then on.
        assert_eq!(asked.collect::<Vec<_>>(), [96, 352, 608, 864]);
    }
}
