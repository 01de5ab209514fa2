//! The pages of the cache: free, held by requests, or kept for the prefix they hold.

use std::sync::Arc;

use super::prefix::PrefixCache;

/// Drafts may drop kept prefixes as long as more than this share of all pages is kept: one in so
/// many.
const KEPT_FROM_DRAFTS: usize = 8;

/// The pages that hold the beginning of a text, as last looked up.
#[derive(Debug, Clone, Default)]
pub(crate) struct FoundPages {
    pages: Vec<u32>,
    /// Of the last page: see [`PrefixCache::number`].
    number: Option<u64>,
}

impl FoundPages {
    /// From the first on.
    pub(crate) fn pages(&self) -> &[u32] {
        &self.pages
    }
}

/// Hands out pages. Each is free, held by one or more requests, or idle: kept, held by none.
///
/// Several requests hold a page only where all of its slots are committed and their texts up to its
/// end are the same; none writes to it then.
#[derive(Debug)]
pub(crate) struct PagePool {
    free: Vec<u32>,
    num_holders: Vec<u32>,
    page_size: usize,
    prefixes: PrefixCache,
}

impl PagePool {
    /// A pool of `total` free pages.
    pub(crate) fn new(total: usize, page_size: usize) -> Self {
        // Popped from the end: low pages first.
        Self {
            free: (0..total as u32).rev().collect(),
            num_holders: vec![0; total],
            page_size,
            prefixes: PrefixCache::default(),
        }
    }

    /// Pages that a request may be given: free ones, and kept ones that would be dropped for it.
    pub(crate) fn num_available(&self) -> usize {
        self.free.len() + self.prefixes.num_idle()
    }

    /// Pages that requests hold.
    pub(crate) fn num_held(&self) -> usize {
        self.total() - self.num_available()
    }

    /// Pages kept for their prefix that no request holds.
    pub(crate) fn num_idle(&self) -> usize {
        self.prefixes.num_idle()
    }

    pub(crate) fn total(&self) -> usize {
        self.num_holders.len()
    }

    pub(crate) fn page_size(&self) -> usize {
        self.page_size
    }

    /// Pages that hold `tokens` slots.
    pub(crate) fn pages_for(&self, tokens: usize) -> usize {
        tokens.div_ceil(self.page_size)
    }

    /// Grows `pages` to hold `tokens` slots; leaves it alone and gives false when too few pages are
    /// available.
    pub(crate) fn grow(&mut self, pages: &mut Vec<u32>, tokens: usize) -> bool {
        let missing = self.pages_for(tokens).saturating_sub(pages.len());
        if missing > self.num_available() {
            return false;
        }
        for _ in 0..missing {
            if let Some(page) = self.free.pop().or_else(|| self.prefixes.evict()) {
                self.num_holders[page as usize] = 1;
                pages.push(page);
            }
        }
        true
    }

    /// Slots `pages` would have with every page added that drafts may take: they leave kept
    /// prefixes alone when few are left, so that under pressure drafts shrink before the cache does.
    pub(crate) fn reach(&self, pages: &[u32]) -> usize {
        let spared = self.total() / KEPT_FROM_DRAFTS;
        let dropped = self.prefixes.num_idle().saturating_sub(spared);
        (pages.len() + self.free.len() + dropped) * self.page_size
    }

    /// Takes back the pages beyond those that `tokens` slots need.
    pub(crate) fn shrink(&mut self, pages: &mut Vec<u32>, tokens: usize) {
        let kept = self.pages_for(tokens).min(pages.len());
        for page in pages.drain(kept..).rev() {
            self.release(page);
        }
    }

    /// Holds a page that somebody holds or that is kept.
    pub(crate) fn hold(&mut self, page: u32) {
        self.num_holders[page as usize] += 1;
        self.prefixes.set_idle(page, false);
    }

    /// Ends one hold of a page.
    pub(crate) fn release(&mut self, page: u32) {
        let holders = &mut self.num_holders[page as usize];
        if cfg!(any(test, debug_assertions)) {
            assert!(*holders > 0, "page {page} is held by nobody");
        }
        *holders -= 1;
        if *holders > 0 {
            return;
        }
        if self.prefixes.is_kept(page) {
            self.prefixes.set_idle(page, true);
        } else {
            self.prefixes.remove(page);
            self.free.push(page);
        }
    }

    /// Makes `found` the pages kept for the longest beginning of `tokens`; none is held by this.
    /// What was found before and is still there is not looked up again.
    pub(crate) fn find(&self, namespace: &Arc<str>, tokens: &[u32], found: &mut FoundPages) {
        let pages = &mut found.pages;
        // A page stays as long as there are pages after it: the last one stands for all.
        let number = pages.last().and_then(|&last| self.prefixes.number(last));
        if number != found.number {
            pages.clear();
        }
        let rest = tokens.get(pages.len() * self.page_size..).unwrap_or(&[]);
        for page_tokens in rest.chunks_exact(self.page_size) {
            let parent = pages.last().copied();
            match self.prefixes.find(namespace, parent, page_tokens) {
                Some(page) => pages.push(page),
                None => break,
            }
        }
        found.number = pages.last().and_then(|&last| self.prefixes.number(last));
    }

    /// How many of `pages`, which follow one another in a text, no request holds.
    pub(crate) fn num_idle_of(&self, pages: &[u32]) -> usize {
        // A request that holds a page holds those before it.
        pages.len() - pages.partition_point(|&page| !self.prefixes.is_idle(page))
    }

    /// How many hold a page.
    pub(crate) fn num_holders(&self, page: u32) -> usize {
        self.num_holders[page as usize] as usize
    }

    /// Lets others find the held page `page`, which holds `tokens` after `parent`; `keep` makes it
    /// outlive those who hold it. Where another page holds the same, that one is held instead.
    pub(crate) fn share(
        &mut self,
        page: &mut u32,
        namespace: &Arc<str>,
        parent: Option<u32>,
        tokens: &[u32],
        keep: bool,
    ) {
        match self.prefixes.find(namespace, parent, tokens) {
            Some(other) => {
                self.hold(other);
                self.release(*page);
                *page = other;
            }
            None => self.prefixes.insert(*page, namespace, parent, tokens),
        }
        self.prefixes.touch(*page, keep);
    }

    /// Counts a use of a held page that others can find; `keep` makes it outlive those who hold it.
    pub(crate) fn touch(&mut self, page: u32, keep: bool) {
        self.prefixes.touch(page, keep);
    }

    /// The kept page after `parent` that begins with most of `tokens`, and with how many.
    pub(crate) fn find_beginning(
        &self,
        namespace: &str,
        parent: Option<u32>,
        tokens: &[u32],
    ) -> Option<(u32, usize)> {
        self.prefixes.find_beginning(namespace, parent, tokens)
    }

    /// Drops what is kept of a namespace.
    pub(crate) fn forget(&mut self, namespace: &str) {
        let idle = self.prefixes.forget(namespace);
        self.free.extend(idle);
    }

    /// Up to `count` pages that no request holds or needs the content of; they stay free.
    pub(crate) fn scratch(&mut self, count: usize) -> Vec<u32> {
        while self.free.len() < count {
            match self.prefixes.evict() {
                Some(page) => self.free.push(page),
                None => break,
            }
        }
        let first = self.free.len().saturating_sub(count);
        self.free[first..].to_vec()
    }

    /// The slot of logical index `index`.
    pub(crate) fn slot(&self, pages: &[u32], index: usize) -> i32 {
        self.slot_in(pages[index / self.page_size], index % self.page_size)
    }

    /// The slot at `offset` in a page.
    pub(crate) fn slot_in(&self, page: u32, offset: usize) -> i32 {
        (page as usize * self.page_size + offset) as i32
    }
}

#[cfg(test)]
impl PagePool {
    /// Compares the pool with who holds which page.
    pub(crate) fn check(&self, holders: &std::collections::HashMap<u32, u32>) {
        let mut places = vec![0; self.total()];
        for &page in &self.free {
            places[page as usize] += 1;
        }
        let num_idle = self.prefixes.check();
        for page in 0..self.total() as u32 {
            let held = holders.get(&page).copied().unwrap_or(0);
            assert_eq!(self.num_holders[page as usize], held, "holders of {page}");
            let is_idle = self.prefixes.is_idle(page);
            let place = places[page as usize] + usize::from(is_idle) + usize::from(held > 0);
            assert_eq!(place, 1, "page {page} is leaked or in two places");
        }
        assert_eq!(self.prefixes.num_idle(), num_idle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> Arc<str> {
        Arc::from("a")
    }

    /// Pages of 2 slots; one request computes `[1, 2, 3, 4]` and ends.
    fn pool_with_a_prefix(total: usize, keep: bool) -> PagePool {
        let mut pool = PagePool::new(total, 2);
        let mut pages = Vec::new();
        assert!(pool.grow(&mut pages, 4));
        let (mut first, mut second) = (pages[0], pages[1]);
        pool.share(&mut first, &name(), None, &[1, 2], keep);
        pool.share(&mut second, &name(), Some(first), &[3, 4], keep);
        pool.shrink(&mut pages, 0);
        pool
    }

    fn find(pool: &PagePool, tokens: &[u32]) -> Vec<u32> {
        let mut found = FoundPages::default();
        pool.find(&name(), tokens, &mut found);
        found.pages
    }

    #[test]
    fn what_was_found_is_extended_and_found_anew_where_it_went() {
        let mut pool = PagePool::new(3, 2);
        let mut pages = Vec::new();
        assert!(pool.grow(&mut pages, 4));
        let (mut first, mut second) = (pages[0], pages[1]);
        let mut found = FoundPages::default();
        let mut look = |pool: &PagePool| {
            pool.find(&name(), &[1, 2, 3, 4, 5], &mut found);
            found.pages.clone()
        };
        assert!(look(&pool).is_empty());
        pool.share(&mut first, &name(), None, &[1, 2], true);
        assert_eq!(look(&pool), [first]);
        pool.share(&mut second, &name(), Some(first), &[3, 4], true);
        assert_eq!(look(&pool), [first, second]);
        assert_eq!(pool.num_idle_of(&[first, second]), 0);
        pool.shrink(&mut pages, 2);
        assert_eq!(pool.num_idle_of(&[first, second]), 1);
        // The end goes, and its page takes another text.
        assert!(pool.grow(&mut pages, 6));
        assert_eq!(look(&pool), [first]);
        let mut other = second;
        pool.share(&mut other, &name(), Some(first), &[9, 9], true);
        assert_eq!((other, look(&pool)), (second, vec![first]));
    }

    #[test]
    fn growing_past_the_pool_changes_nothing() {
        let mut pool = PagePool::new(3, 4);
        let mut pages = Vec::new();
        assert!(pool.grow(&mut pages, 5));
        assert_eq!(pages, [0, 1]);
        assert!(!pool.grow(&mut pages, 13));
        assert_eq!((pages.len(), pool.num_available()), (2, 1));
    }

    #[test]
    fn shrinking_returns_only_unneeded_pages() {
        let mut pool = PagePool::new(4, 4);
        let mut pages = Vec::new();
        assert!(pool.grow(&mut pages, 16));
        pool.shrink(&mut pages, 4);
        assert_eq!(
            (pages.as_slice(), pool.num_available()),
            ([0].as_slice(), 3)
        );
        pool.shrink(&mut pages, 0);
        assert_eq!((pages.len(), pool.num_held()), (0, 0));
    }

    #[test]
    fn a_kept_prefix_is_found_until_its_pages_are_needed() {
        let mut pool = pool_with_a_prefix(3, true);
        assert_eq!((pool.num_held(), pool.num_idle()), (0, 2));
        let found = find(&pool, &[1, 2, 3, 4, 5]);
        assert_eq!(found.len(), 2);
        let mut pages = Vec::new();
        // A free page first, then the end of the prefix.
        assert!(pool.grow(&mut pages, 4));
        assert_eq!(find(&pool, &[1, 2, 3, 4, 5]), found[..1]);
        assert!(pool.grow(&mut pages, 6));
        assert!(find(&pool, &[1, 2, 3, 4, 5]).is_empty());
    }

    #[test]
    fn a_page_that_is_not_kept_goes_with_the_last_request_that_holds_it() {
        let pool = pool_with_a_prefix(3, false);
        assert_eq!((pool.num_available(), pool.num_idle()), (3, 0));
        assert!(find(&pool, &[1, 2]).is_empty());
    }

    #[test]
    fn a_page_computed_twice_is_held_once() {
        let mut pool = pool_with_a_prefix(4, true);
        let kept = find(&pool, &[1, 2]);
        let mut pages = Vec::new();
        assert!(pool.grow(&mut pages, 2));
        let mut page = pages[0];
        pool.share(&mut page, &name(), None, &[1, 2], true);
        assert_eq!(vec![page], kept);
        assert_eq!((pool.num_held(), pool.num_idle()), (1, 1));
        pool.release(page);
        assert_eq!(pool.num_held(), 0);
    }

    #[test]
    fn drafts_leave_an_eighth_of_the_cache_to_kept_prefixes() {
        let mut pool = pool_with_a_prefix(8, true);
        let mut pages = Vec::new();
        assert!(pool.grow(&mut pages, 12));
        // No page is free; two are kept, one of which drafts may have.
        assert_eq!(pool.reach(&pages), 14);
        assert!(pool.grow(&mut pages, 14));
        assert_eq!(pool.reach(&pages), 14);
    }

    #[test]
    fn scratch_pages_are_free_ones_and_stay_free() {
        let mut pool = pool_with_a_prefix(4, true);
        assert_eq!(pool.scratch(2).len(), 2);
        assert_eq!(pool.num_idle(), 2);
        assert_eq!(pool.scratch(3).len(), 3);
        assert_eq!((pool.num_idle(), pool.num_available()), (1, 4));
        assert_eq!(pool.scratch(9).len(), 4);
    }
}
