//! Entries that are still to be computed. Rows of small forwards wait for others: a product reads its weights
//! once for all of them.
//!
//! An entry depends on its token, its position and one feature alone, so it is the same whenever it is computed.

use crate::attention::{Batch, BatchRow};
use crate::draft::drafter::Origin;
use crate::simd::Dtype;

/// Rows whose entries may wait. A forward of as many computes its entries itself.
pub const MAX_PENDING: usize = 64;

/// Rows that wait for their entries, each with a copy of the feature before it.
pub(crate) struct Pending<E> {
    rows: Vec<PendingRow>,
    /// `[rows, width]`.
    features: Vec<E>,
    width: usize,
}

#[derive(Debug, Clone, Copy)]
struct PendingRow {
    slot: u32,
    position: u32,
    token: i32,
}

/// What is to be computed, in one run.
pub(crate) struct Due<'a, E> {
    pub(crate) batch: Batch,
    pub(crate) tokens: Vec<i32>,
    /// Rows of `features`.
    pub(crate) origins: Vec<Origin>,
    pub(crate) features: &'a [E],
}

impl<E: Dtype> Pending<E> {
    /// None, of features of so many numbers.
    pub(crate) fn new(width: usize) -> Self {
        Self {
            rows: Vec::new(),
            features: Vec::new(),
            width,
        }
    }

    /// Whether `more` rows may wait beside those that do.
    pub(crate) fn has_room_for(&self, more: usize) -> bool {
        self.rows.len() + more <= MAX_PENDING
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Has the rows of a forward wait, whose features are `features`; `store` is that which it began with.
    pub(crate) fn add(
        &mut self,
        rows: impl Iterator<Item = (BatchRow, i32, Origin)>,
        features: &[E],
        store: &[E],
    ) {
        let width = self.width;
        for (row, token, origin) in rows {
            self.forget(row.slot);
            let (table, from) = match origin {
                Origin::Forward(from) => (features, from),
                // A forward's rows continue no draft.
                Origin::Store(from) | Origin::State(from) => (store, from),
            };
            self.rows.push(PendingRow {
                slot: row.slot,
                position: row.position,
                token,
            });
            self.features
                .extend_from_slice(&table[from * width..(from + 1) * width]);
        }
    }

    /// Forgets what waits for a slot that gets another entry.
    pub(crate) fn forget(&mut self, slot: u32) {
        let Some(index) = self.rows.iter().position(|row| row.slot == slot) else {
            return;
        };
        self.rows.swap_remove(index);
        let (start, last) = (index * self.width, self.rows.len() * self.width);
        self.features.copy_within(last..last + self.width, start);
        self.features.truncate(last);
    }

    /// Does a batch's moves: what waits for a slot waits for its copy too.
    pub(crate) fn move_slots(&mut self, batch: &Batch) {
        if self.rows.is_empty() {
            return;
        }
        for &(from, to) in batch.moves.iter().filter(|(from, to)| from != to) {
            self.forget(to);
            let waiting = self.rows.iter().position(|row| row.slot == from);
            let Some(index) = waiting else { continue };
            let row = self.rows[index];
            self.rows.push(PendingRow { slot: to, ..row });
            let start = index * self.width;
            self.features.extend_from_within(start..start + self.width);
        }
    }

    /// All that wait.
    pub(crate) fn due(&self) -> Due<'_, E> {
        let rows = self.rows.iter().map(|row| BatchRow {
            position: row.position,
            last: row.position,
            first: 0,
            slot: row.slot,
            // What it attends to is not asked.
            page_start: 0,
            direct_end: 0,
            path_start: 0,
        });
        Due {
            batch: Batch {
                rows: rows.collect(),
                ..Batch::default()
            },
            tokens: self.rows.iter().map(|row| row.token).collect(),
            origins: (0..self.rows.len()).map(Origin::Store).collect(),
            features: &self.features,
        }
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.features.clear();
    }

    /// Bytes of what waits.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(self.features.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(slot: u32, position: u32) -> BatchRow {
        BatchRow {
            position,
            last: position,
            first: 0,
            slot,
            page_start: 0,
            direct_end: 0,
            path_start: 0,
        }
    }

    /// Of each slot in order: position, token and feature of what waits for it.
    fn waiting(pending: &Pending<f32>) -> Vec<(u32, u32, i32, Vec<f32>)> {
        let due = pending.due();
        let rows = due.batch.rows.iter().zip(&due.tokens).zip(&due.origins);
        let mut found: Vec<_> = rows
            .map(|((row, &token), origin)| {
                let Origin::Store(at) = *origin else {
                    panic!("{origin:?}")
                };
                let feature = due.features[2 * at..2 * at + 2].to_vec();
                (row.slot, row.position, token, feature)
            })
            .collect();
        found.sort_by_key(|one| one.0);
        found
    }

    /// Slots 5, 6 and 7, whose features are those of the store's last row and of the rows before.
    fn three() -> Pending<f32> {
        let mut pending = Pending::new(2);
        let rows = [
            (row(5, 3), 50, Origin::Store(1)),
            (row(6, 4), 60, Origin::Forward(0)),
            (row(7, 5), 70, Origin::Forward(1)),
        ];
        let (features, store) = ([1.0, 2.0, 3.0, 4.0, 9.0, 9.0], [0.0, 0.0, 7.0, 8.0]);
        pending.add(rows.into_iter(), &features, &store);
        pending
    }

    #[test]
    fn rows_wait_with_copies_of_the_features_before_them() {
        let found = waiting(&three());
        assert_eq!(
            found,
            [
                (5, 3, 50, vec![7.0, 8.0]),
                (6, 4, 60, vec![1.0, 2.0]),
                (7, 5, 70, vec![3.0, 4.0]),
            ]
        );
    }

    #[test]
    fn a_later_row_takes_the_place_of_one_that_waits_for_its_slot() {
        let mut pending = three();
        let later = [(row(5, 9), 51, Origin::Forward(0))];
        pending.add(later.into_iter(), &[5.0, 6.0], &[]);
        let found = waiting(&pending);
        assert_eq!(found.len(), 3);
        assert_eq!(found[0], (5, 9, 51, vec![5.0, 6.0]));
        assert_eq!(found[2], (7, 5, 70, vec![3.0, 4.0]));
        pending.forget(5);
        pending.forget(5);
        assert_eq!(waiting(&pending), found[1..]);
    }

    #[test]
    fn moves_take_along_what_waits_and_end_what_waited_for_their_targets() {
        let mut pending = three();
        // The first is copied twice on its way; nothing waits for slot 20.
        let moves = vec![(5, 8), (8, 9), (20, 6), (7, 7), (7, 5)];
        pending.move_slots(&Batch {
            moves,
            ..Batch::default()
        });
        let found = waiting(&pending);
        assert_eq!(
            found,
            [
                (5, 5, 70, vec![3.0, 4.0]),
                (7, 5, 70, vec![3.0, 4.0]),
                (8, 3, 50, vec![7.0, 8.0]),
                (9, 3, 50, vec![7.0, 8.0]),
            ]
        );
    }

    #[test]
    fn there_is_room_for_so_many_and_after_all_are_computed_for_all() {
        let mut pending = three();
        assert!(pending.has_room_for(MAX_PENDING - 3) && !pending.has_room_for(MAX_PENDING - 2));
        pending.clear();
        assert!(pending.is_empty() && pending.has_room_for(MAX_PENDING) && pending.bytes() == 0);
    }
}
