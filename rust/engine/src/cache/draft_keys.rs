//! Which tokens a drafter that reads no features has keys of: it makes them when it is asked.
//!
//! Its keys lie in the model's slots and depend on the text up to there alone, so a page's hold for all that
//! share it. This says what is to be made up before a request is asked about, each slot once.

use std::collections::HashSet;
use std::ops::Range;

use super::table::PageTable;

/// What the drafter has keys of.
#[derive(Debug)]
pub(crate) struct DraftKeys {
    /// Its number.
    drafter: usize,
    /// Of each page: whether of all of its tokens. It says nothing of pages that nobody can find.
    known: Vec<bool>,
}

/// Pages that are full of keys when a level has made up what it is given.
#[derive(Debug, Default)]
pub(crate) struct Planned(HashSet<u32>);

impl DraftKeys {
    pub(super) fn new(drafter: usize, num_pages: usize) -> Self {
        Self {
            drafter,
            known: vec![false; num_pages],
        }
    }

    /// Whose account this is.
    pub(super) fn drafter(&self) -> usize {
        self.drafter
    }

    /// How many of `pages`, the beginning of a text, the drafter has all keys of.
    pub(super) fn num_known(&self, pages: &[u32]) -> usize {
        pages
            .iter()
            .take_while(|&&page| self.known[page as usize])
            .count()
    }

    /// Notes the pages of `table` from index `first` on that others can find since: in place of some, others are
    /// held.
    pub(super) fn note_shared(
        &mut self,
        table: &mut PageTable,
        first: usize,
        replaced: &[(u32, u32)],
        page_size: usize,
    ) {
        for index in first..table.num_shared {
            let page = table.pages[index];
            let is_other = replaced.iter().any(|&(_, other)| other == page);
            if !is_other {
                let end = (index + 1) * page_size;
                self.known[page as usize] = table.num_drafted[self.drafter] >= end;
            } else if !self.known[page as usize] {
                let drafted = &mut table.num_drafted[self.drafter];
                *drafted = (*drafted).min(index * page_size);
            }
        }
    }

    /// Where the first token of a request is that the drafter lacks keys of, or will lack when `planned` is done.
    fn start(&self, table: &PageTable, page_size: usize, planned: &Planned) -> usize {
        let mut start = table.num_drafted[self.drafter];
        while start < table.kv_len {
            let index = start / page_size;
            let page = table.pages[index];
            let is_known = index < table.num_shared && self.known[page as usize];
            if !is_known && !planned.0.contains(&page) {
                break;
            }
            start = (index + 1) * page_size;
        }
        start.min(table.kv_len)
    }

    /// Tokens of a request in the cache that the drafter lacks keys of.
    pub(super) fn num_missing(&self, table: &PageTable, page_size: usize) -> usize {
        table.kv_len - self.start(table, page_size, &Planned::default())
    }

    /// See [`Cache::plan_keys`](super::Cache::plan_keys).
    pub(super) fn plan(
        &self,
        table: &PageTable,
        most: usize,
        page_size: usize,
        planned: &mut Planned,
    ) -> Range<usize> {
        let start = self.start(table, page_size, planned);
        let mut end = table.kv_len;
        if end - start > most {
            // What others share of it is made whole, so that no one else begins within a page.
            end = (start + most.max(1)).next_multiple_of(page_size).min(end);
        }
        let first = start / page_size;
        let full = &table.pages[first..end / page_size];
        if let Some(index) = full.iter().position(|page| planned.0.contains(page)) {
            debug_assert!(false, "who shares a page lacks the same tokens of it");
            return start..((first + index) * page_size).max(start);
        }
        planned.0.extend(full);
        start..end
    }

    /// Notes that there are keys of the tokens up to `end`.
    pub(super) fn note(&mut self, table: &mut PageTable, end: usize, page_size: usize) {
        let drafted = &mut table.num_drafted[self.drafter];
        *drafted = (*drafted).max(end);
        // Others may hold those of a request that shares no more.
        for &page in &table.pages[..end / page_size] {
            self.known[page as usize] = true;
        }
    }
}
