//! The slots of the paths of draft trees.

use crate::plan::{Plan, RowKind};

/// What the lists of attention need of each row, found once for all windows.
#[derive(Debug, Default)]
pub(super) struct PathSlots {
    /// Slots of each tree row's ancestors in this step, from the root to itself.
    pub(super) slots: Vec<i32>,
    /// Where each row's begin; those of rows of chunks are empty.
    pub(super) begins: Vec<i32>,
}

impl PathSlots {
    /// Finds those of a plan.
    pub(super) fn find(&mut self, plan: &Plan) {
        self.slots.clear();
        self.begins.clear();
        let requests = plan.request_row_start.iter().zip(&plan.request_row_count);
        for ((&start, &count), &kind) in requests.zip(&plan.request_kind) {
            let rows = start as usize..(start + count) as usize;
            if kind != RowKind::Tree as i32 {
                let here = self.slots.len() as i32;
                self.begins.resize(self.begins.len() + rows.len(), here);
                continue;
            }
            let slots = &plan.row_slot[rows.clone()];
            for &ancestors in &plan.row_ancestors[rows] {
                self.begins.push(self.slots.len() as i32);
                let mut left = ancestors as u64;
                while left != 0 {
                    self.slots.push(slots[left.trailing_zeros() as usize]);
                    left &= left - 1;
                }
            }
        }
    }
}
