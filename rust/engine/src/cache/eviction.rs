//! Which kept page is evicted next.

use std::collections::BTreeSet;

/// More uses than this make a page no more worth keeping: what was popular once must fade.
const MAX_USES: u64 = 8;

/// What a page is worth, by its uses.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Standing {
    /// Requests that computed it or found it, at most [`MAX_USES`].
    num_uses: u64,
    worth: u64,
    last_use: u64,
}

/// The pages that may be evicted, the least worth first.
///
/// A page's worth is its uses, at most 8, plus the worth of the last page that went when it was last
/// used (greedy-dual ageing: what is not used falls behind by one use for each generation of pages).
/// Among equals the one that was not used for longest goes first.
#[derive(Debug, Default)]
pub(crate) struct EvictionOrder {
    pages: BTreeSet<(u64, u64, u32)>,
    evicted_worth: u64,
    num_touches: u64,
}

impl EvictionOrder {
    /// Counts a use of a page that may not be evicted now.
    pub(crate) fn touch(&mut self, standing: &mut Standing) {
        self.num_touches += 1;
        standing.num_uses = (standing.num_uses + 1).min(MAX_USES);
        standing.worth = self.evicted_worth + standing.num_uses;
        standing.last_use = self.num_touches;
    }

    /// Lets a page be evicted.
    pub(crate) fn insert(&mut self, page: u32, standing: &Standing) {
        self.pages.insert(place(page, standing));
    }

    /// Lets a page not be evicted.
    pub(crate) fn remove(&mut self, page: u32, standing: &Standing) {
        self.pages.remove(&place(page, standing));
    }

    /// The page that goes next; it is still in the order.
    pub(crate) fn choose(&mut self) -> Option<u32> {
        let &(worth, _, page) = self.pages.first()?;
        self.evicted_worth = self.evicted_worth.max(worth);
        Some(page)
    }
}

fn place(page: u32, standing: &Standing) -> (u64, u64, u32) {
    (standing.worth, standing.last_use, page)
}

#[cfg(test)]
impl EvictionOrder {
    pub(crate) fn contains(&self, page: u32, standing: &Standing) -> bool {
        self.pages.contains(&place(page, standing))
    }

    pub(crate) fn len(&self) -> usize {
        self.pages.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn popular_pages_outlive_others_until_they_fade() {
        let mut order = EvictionOrder::default();
        let enter = |order: &mut EvictionOrder, page, uses| {
            let mut standing = Standing::default();
            (0..uses).for_each(|_| order.touch(&mut standing));
            order.insert(page, &standing);
            standing
        };
        let popular = enter(&mut order, 0, 100);
        let mut gone = Vec::new();
        for page in 1..20 {
            let standing = enter(&mut order, page, 1);
            let next = order.choose().unwrap();
            gone.push(next);
            order.remove(next, if next == 0 { &popular } else { &standing });
            if next == 0 {
                break;
            }
        }
        // At most eight uses count.
        assert_eq!(gone, [1, 2, 3, 4, 5, 6, 7, 0]);
    }
}
