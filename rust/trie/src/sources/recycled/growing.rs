//! A table that grows with what it is told, as far as there is room.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::table::Recycled;
use crate::TokenId;
use crate::store::grant::Grant;

/// Answers after which a first table that was refused is asked for again: to ask takes a look at
/// every namespace.
const ASK_AGAIN: u32 = 256;

#[derive(Debug, Default)]
struct State {
    /// Made when the first answer comes.
    table: Option<Arc<Recycled>>,
    /// Whether no table may come any more.
    is_closed: bool,
}

/// A table that starts small and grows up to a number of keys.
#[derive(Debug)]
pub(crate) struct GrowingTable {
    max_keys: usize,
    /// Held for as long as it takes to copy or swap one pointer.
    state: RwLock<State>,
    /// Answers that came while there was no table.
    missed: AtomicU32,
    /// Accepted draft tokens that only it named, halved whenever something makes room.
    credit: AtomicU32,
}

impl GrowingTable {
    /// No table yet.
    pub(crate) fn new(max_keys: usize) -> Self {
        Self {
            max_keys,
            state: RwLock::default(),
            missed: AtomicU32::new(0),
            credit: AtomicU32::new(0),
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The table as it is now; `None` before the first answer.
    pub(crate) fn table(&self) -> Option<Arc<Recycled>> {
        self.read().table.clone()
    }

    /// Notes an answer, in a table as large as `leave` grants bytes for: it is asked for more bytes
    /// for a table of so many in all.
    pub(crate) fn put(
        &self,
        before: Option<TokenId>,
        last: TokenId,
        top: &[(TokenId, f32)],
        leave: impl Fn(usize, usize) -> Option<Grant>,
    ) {
        let table = self.table().or_else(|| {
            if !self.missed.fetch_add(1, Relaxed).is_multiple_of(ASK_AGAIN) {
                return None;
            }
            let bytes = Recycled::FIRST_BYTES;
            self.install(None, Recycled::new(leave(bytes, bytes)?))
        });
        let Some(table) = table else { return };
        table.put(before, last, top);
        if table.keys() < self.max_keys && table.wants_to_grow() {
            let more = table.growth_bytes();
            if let Some(grant) = leave(more, table.bytes() + more) {
                self.install(Some(&table), table.grown(grant));
            }
        }
    }

    /// Puts `new` in the place of `old` and gives the table there is then: another, if `old` was
    /// replaced meanwhile, or none, if the table was closed.
    fn install(&self, old: Option<&Arc<Recycled>>, new: Recycled) -> Option<Arc<Recycled>> {
        let mut state = self.write();
        let is_old = match (old, &state.table) {
            (None, None) => !state.is_closed,
            (Some(old), Some(table)) => Arc::ptr_eq(old, table),
            _ => false,
        };
        if is_old {
            state.table = Some(Arc::new(new));
            self.missed.store(0, Relaxed);
        }
        state.table.clone()
    }

    /// Gives back the last part of the table, or all of it, and says how many bytes that is.
    pub(crate) fn shrink(&self) -> usize {
        let mut state = self.write();
        let Some(table) = state.table.take() else {
            return 0;
        };
        state.table = table.shrunk().map(Arc::new);
        let after = state.table.as_ref().map_or(0, |table| table.bytes());
        if after == 0 {
            table.disown();
        }
        table.bytes() - after
    }

    /// Drops the table for good.
    pub(crate) fn close(&self) {
        let mut state = self.write();
        state.is_closed = true;
        if let Some(table) = state.table.take() {
            table.disown();
        }
    }

    /// Notes accepted tokens that only the table named.
    pub(crate) fn add_credit(&self, tokens: u32) {
        self.credit.fetch_add(tokens, Relaxed);
    }

    pub(crate) fn halve_credit(&self) {
        self.credit.store(self.credit.load(Relaxed) / 2, Relaxed);
    }

    /// Accepted tokens for each byte; one token more is taken for granted, since a new table has
    /// none. `None` without a table.
    pub(crate) fn usefulness(&self) -> Option<f64> {
        let bytes = self.table()?.bytes();
        Some(f64::from(self.credit.load(Relaxed) + 1) / bytes as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::recycled::table::FIRST_KEYS;

    fn put_many(growing: &GrowingTable, keys: u32, max_bytes: usize) {
        for token in 0..keys {
            growing.put(None, token, &[(token, 0.9)], |more, all| {
                (all <= max_bytes).then(|| Grant::unbounded(more))
            });
        }
    }

    fn keys(growing: &GrowingTable) -> usize {
        growing.table().map_or(0, |table| table.keys())
    }

    #[test]
    fn a_table_grows_with_its_keys_up_to_its_bounds() {
        let growing = GrowingTable::new(16 * FIRST_KEYS);
        put_many(&growing, 50, usize::MAX);
        assert_eq!(keys(&growing), FIRST_KEYS);
        put_many(&growing, 100, usize::MAX);
        assert_eq!(keys(&growing), 4 * FIRST_KEYS);
        put_many(&growing, 100_000, usize::MAX);
        assert_eq!(keys(&growing), 16 * FIRST_KEYS);
        let bounded = GrowingTable::new(16 * FIRST_KEYS);
        put_many(&bounded, 100_000, 4 * Recycled::FIRST_BYTES);
        assert_eq!(keys(&bounded), 4 * FIRST_KEYS);
        let none = GrowingTable::new(FIRST_KEYS);
        put_many(&none, 10, 0);
        assert_eq!(keys(&none), 0);
    }

    #[test]
    fn a_table_gives_back_three_quarters_at_a_time() {
        let growing = GrowingTable::new(4 * FIRST_KEYS);
        put_many(&growing, 1_000, usize::MAX);
        let first = Recycled::FIRST_BYTES;
        let given: Vec<_> = (0..3).map(|_| growing.shrink()).collect();
        assert_eq!(given, [3 * first, first, 0]);
        put_many(&growing, 1, usize::MAX);
        assert_eq!(
            keys(&growing),
            FIRST_KEYS,
            "the next answer makes a new one"
        );
    }

    #[test]
    fn a_table_that_was_refused_is_asked_for_from_time_to_time() {
        let growing = GrowingTable::new(FIRST_KEYS);
        let asked = AtomicU32::new(0);
        for token in 0..1_000 {
            growing.put(None, token, &[(token, 0.9)], |_, _| {
                asked.fetch_add(1, Relaxed);
                None
            });
        }
        assert_eq!(asked.load(Relaxed), 4);
        put_many(&growing, ASK_AGAIN, usize::MAX);
        assert_eq!(keys(&growing), FIRST_KEYS);
    }

    #[test]
    fn a_closed_table_stays_closed_even_for_an_answer_on_its_way() {
        let growing = GrowingTable::new(FIRST_KEYS);
        put_many(&growing, 1, usize::MAX);
        growing.close();
        put_many(&growing, 1, usize::MAX);
        assert_eq!(keys(&growing), 0);
        let late = GrowingTable::new(FIRST_KEYS);
        // It closes after the answer was begun, and before its table comes.
        late.put(None, 1, &[(2, 0.9)], |more, _| {
            late.close();
            Some(Grant::unbounded(more))
        });
        assert_eq!(keys(&late), 0);
    }
}
