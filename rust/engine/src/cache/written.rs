//! Pages that a forward still writes to when the requests that hold them may have ended.

use std::ops::Range;

use super::cache::Cache;
use super::table::PageTable;

impl Cache {
    /// Gives requests slots for so many tokens each; false, and nothing changes, where too few pages are
    /// left for all of them.
    pub(crate) fn grow_all<'a>(
        &mut self,
        tables: impl Iterator<Item = (&'a mut PageTable, usize)>,
    ) -> bool {
        let tables: Vec<(&mut PageTable, usize)> = tables.collect();
        let missing = tables.iter().map(|(table, num_tokens)| {
            let needed = self.pages_for(*num_tokens);
            needed.saturating_sub(table.pages.len())
        });
        if missing.sum::<usize>() > self.num_available() {
            return false;
        }
        for (table, num_tokens) in tables {
            self.pool.grow(&mut table.pages, num_tokens);
        }
        true
    }

    /// Holds the pages of the tokens at `indices` until [`Self::let_go`] of this plan, which writes there.
    pub(crate) fn hold_written(&mut self, plan_id: u64, table: &PageTable, indices: Range<usize>) {
        let first = indices.start / self.page_size();
        for &page in &table.pages[first..self.pages_for(indices.end)] {
            self.pool.hold(page);
            self.written.push((plan_id, page));
        }
    }

    /// The forwards of all plans up to this one are over: nothing is written any more.
    pub(crate) fn let_go(&mut self, plan_id: u64) {
        let pool = &mut self.pool;
        self.written.retain(|&(written_by, page)| {
            let is_written = written_by > plan_id;
            if !is_written {
                pool.release(page);
            }
            is_written
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const PAGE: usize = 4;

    fn table(cache: &mut Cache, tokens: usize) -> PageTable {
        let mut table = PageTable::new(Arc::from("a"), false);
        assert!(cache.pool.grow(&mut table.pages, tokens));
        table.advance(tokens);
        table
    }

    #[test]
    fn a_page_that_a_forward_writes_to_is_handed_out_when_the_forward_is_over() {
        let mut cache = Cache::new(2, PAGE);
        let mut ended = table(&mut cache, 3);
        assert!(cache.grow_all(std::iter::once((&mut ended, 5))));
        assert_eq!(ended.pages.len(), 2);
        cache.hold_written(7, &ended, 4..5);
        let written = ended.pages[1];
        cache.close(0, &mut ended, &[1, 2, 3, 4]);
        assert_eq!(cache.num_available(), 1);
        let other = table(&mut cache, 4);
        assert_ne!(other.pages, [written]);
        cache.let_go(6);
        assert_eq!(cache.num_available(), 0, "plan 7 still writes");
        cache.let_go(7);
        assert_eq!(cache.num_available(), 1);
    }

    #[test]
    fn all_requests_get_their_slots_or_no_request_does() {
        let mut cache = Cache::new(3, PAGE);
        let mut tables = [table(&mut cache, 3), table(&mut cache, 3)];
        assert!(!cache.grow_all(tables.iter_mut().map(|one| (one, 5))));
        assert_eq!(tables.each_ref().map(|one| one.pages.len()), [1, 1]);
        assert!(cache.grow_all(tables[..1].iter_mut().map(|one| (one, 5))));
        assert_eq!(cache.num_available(), 0);
    }
}
