//! The free pages of the cache.

/// Hands out pages; each is free or owned by one request.
#[derive(Debug)]
pub(crate) struct PagePool {
    free: Vec<u32>,
    total: usize,
    page_size: usize,
}

impl PagePool {
    /// A pool of `total` free pages.
    pub(crate) fn new(total: usize, page_size: usize) -> Self {
        // Popped from the end: low pages first.
        Self {
            free: (0..total as u32).rev().collect(),
            total,
            page_size,
        }
    }

    pub(crate) fn num_free(&self) -> usize {
        self.free.len()
    }

    pub(crate) fn num_used(&self) -> usize {
        self.total - self.free.len()
    }

    pub(crate) fn total(&self) -> usize {
        self.total
    }

    /// Pages that hold `tokens` slots.
    pub(crate) fn pages_for(&self, tokens: usize) -> usize {
        tokens.div_ceil(self.page_size)
    }

    /// Grows `pages` to hold `tokens` slots; leaves it alone and gives false when too few pages are
    /// free.
    pub(crate) fn grow(&mut self, pages: &mut Vec<u32>, tokens: usize) -> bool {
        let missing = self.pages_for(tokens).saturating_sub(pages.len());
        if missing > self.free.len() {
            return false;
        }
        let kept = self.free.len() - missing;
        pages.extend(self.free.drain(kept..).rev());
        true
    }

    /// Slots `pages` would have with every free page added.
    pub(crate) fn reach(&self, pages: &[u32]) -> usize {
        (pages.len() + self.free.len()) * self.page_size
    }

    /// Takes back the pages beyond those that `tokens` slots need.
    pub(crate) fn shrink(&mut self, pages: &mut Vec<u32>, tokens: usize) {
        let kept = self.pages_for(tokens).min(pages.len());
        self.free.extend(pages.drain(kept..).rev());
    }

    /// The slot of logical index `index`.
    pub(crate) fn slot(&self, pages: &[u32], index: usize) -> i32 {
        (pages[index / self.page_size] as usize * self.page_size + index % self.page_size) as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growing_past_the_pool_changes_nothing() {
        let mut pool = PagePool::new(3, 4);
        let mut pages = Vec::new();
        assert!(pool.grow(&mut pages, 5));
        assert_eq!(pages, [0, 1]);
        assert!(!pool.grow(&mut pages, 13));
        assert_eq!((pages.len(), pool.num_free()), (2, 1));
    }

    #[test]
    fn shrinking_returns_only_unneeded_pages() {
        let mut pool = PagePool::new(4, 4);
        let mut pages = Vec::new();
        assert!(pool.grow(&mut pages, 16));
        pool.shrink(&mut pages, 4);
        assert_eq!((pages.as_slice(), pool.num_free()), ([0].as_slice(), 3));
        pool.shrink(&mut pages, 0);
        assert_eq!((pages.len(), pool.num_used()), (0, 0));
    }
}
