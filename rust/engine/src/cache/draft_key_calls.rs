//! What the cache is told and asked of the keys that a drafter makes when it is asked.

use std::ops::Range;

use super::cache::Cache;
use super::draft_keys::{DraftKeys, Planned};
use super::table::PageTable;

impl Cache {
    /// Keeps account of a drafter's keys from now on, before any page was filled, or no more.
    pub(crate) fn keep_draft_keys(&mut self, is_kept: bool) {
        let num_pages = self.pool.total();
        self.draft_keys = is_kept.then(|| DraftKeys::new(num_pages));
    }

    /// Tokens of a request in the cache that the drafter lacks keys of.
    pub(crate) fn num_undrafted(&self, table: &PageTable) -> usize {
        let keys = self.draft_keys.as_ref();
        keys.map_or(0, |keys| keys.num_missing(table, self.page_size()))
    }

    /// The tokens of a request to make keys of before it is asked about, at most `most` more or less: less than
    /// all end with a page. `planned` are the pages that others' fill.
    pub(crate) fn plan_keys(
        &self,
        table: &PageTable,
        most: usize,
        planned: &mut Planned,
    ) -> Range<usize> {
        match &self.draft_keys {
            Some(keys) => keys.plan(table, most, self.page_size(), planned),
            None => table.kv_len..table.kv_len,
        }
    }

    /// Notes that the drafter has keys of the tokens up to `end`.
    pub(crate) fn note_keys(&mut self, table: &mut PageTable, end: usize) {
        let size = self.page_size();
        if let Some(keys) = &mut self.draft_keys {
            keys.note(table, end, size);
        }
    }
}
