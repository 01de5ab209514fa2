//! What the cache is told and asked of the keys that a drafter makes when it is asked.

use std::ops::Range;

use super::cache::Cache;
use super::draft_keys::{DraftKeys, Planned};
use super::table::PageTable;

impl Cache {
    /// Keeps account of the keys of these drafters alone from now on, of new ones before any page was filled.
    pub(crate) fn keep_draft_keys(&mut self, drafters: &[usize]) {
        let num_pages = self.pool.total();
        self.draft_keys
            .retain(|keys| drafters.contains(&keys.drafter()));
        for &drafter in drafters {
            if self.keys_of(drafter).is_none() {
                self.draft_keys.push(DraftKeys::new(drafter, num_pages));
            }
        }
    }

    /// Tokens of a request in the cache that a drafter lacks keys of.
    pub(crate) fn num_undrafted(&self, drafter: usize, table: &PageTable) -> usize {
        let keys = self.keys_of(drafter);
        keys.map_or(0, |keys| keys.num_missing(table, self.page_size()))
    }

    fn keys_of(&self, drafter: usize) -> Option<&DraftKeys> {
        self.draft_keys
            .iter()
            .find(|keys| keys.drafter() == drafter)
    }

    /// The tokens of a request to make keys of before it is asked about, at most `most` more or less: less than
    /// all end with a page. `planned` are the pages that others' fill.
    pub(crate) fn plan_keys(
        &self,
        drafter: usize,
        table: &PageTable,
        most: usize,
        planned: &mut Planned,
    ) -> Range<usize> {
        match self.keys_of(drafter) {
            Some(keys) => keys.plan(table, most, self.page_size(), planned),
            None => table.kv_len..table.kv_len,
        }
    }

    /// Notes that a drafter has keys of the tokens up to `end`.
    pub(crate) fn note_keys(&mut self, drafter: usize, table: &mut PageTable, end: usize) {
        let size = self.page_size();
        let mut all = self.draft_keys.iter_mut();
        if let Some(keys) = all.find(|keys| keys.drafter() == drafter) {
            keys.note(table, end, size);
        }
    }
}
