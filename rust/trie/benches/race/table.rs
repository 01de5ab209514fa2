//! A hash table of ids whose keys lie elsewhere.

/// Slots of an empty table, a power of two.
const MIN_SLOTS: usize = 16;

/// Ids above 0 by the hash of a pair, with linear probing.
pub(crate) struct Table {
    slots: Vec<u32>,
    used: usize,
}

impl Table {
    pub(crate) fn new() -> Self {
        Self {
            slots: vec![0; MIN_SLOTS],
            used: 0,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(self.slots.as_slice())
    }

    fn slot(pair: (u32, u32), slots: usize) -> usize {
        let key = (u64::from(pair.0) << 32 | u64::from(pair.1)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        ((u128::from(key ^ key >> 29) * slots as u128) >> 64) as usize
    }

    /// Slots that may hold the id of `pair`.
    fn probe(&self, pair: (u32, u32)) -> impl Iterator<Item = usize> {
        let slots = self.slots.len();
        let start = Self::slot(pair, slots);
        (0..slots).map(move |step| (start + step) & (slots - 1))
    }

    /// The id of `pair`, where `is` knows the ids that have it.
    pub(crate) fn get(&self, pair: (u32, u32), is: impl Fn(u32) -> bool) -> Option<u32> {
        self.probe(pair)
            .map(|slot| self.slots[slot])
            .take_while(|&id| id != 0)
            .find(|&id| is(id))
    }

    /// Adds an id that is not there.
    pub(crate) fn insert(
        &mut self,
        pair: (u32, u32),
        id: u32,
        pair_of: impl Fn(u32) -> (u32, u32),
    ) {
        self.used += 1;
        if self.used * 4 > self.slots.len() * 3 {
            let slots = self.slots.len() * 2;
            let old = std::mem::replace(&mut self.slots, vec![0; slots]);
            for id in old.into_iter().filter(|&id| id != 0) {
                self.put(pair_of(id), 0, id);
            }
        }
        self.put(pair, 0, id);
    }

    /// Puts `new` where `old` is, which has the same pair.
    pub(crate) fn put(&mut self, pair: (u32, u32), old: u32, new: u32) {
        let slot = self.probe(pair).find(|&slot| self.slots[slot] == old);
        if let Some(slot) = slot {
            self.slots[slot] = new;
        }
    }
}
