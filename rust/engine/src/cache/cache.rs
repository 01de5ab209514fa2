//! The key-value cache: its pages, the copies that are due, and who shares what.

use super::pool::PagePool;
use super::reuse::{self, CachedPrefix, Resident};
use super::table::PageTable;
use crate::request_key::RequestKey;

/// A copy between slots before the next forward.
#[derive(Debug, Clone, Copy)]
struct SlotCopy {
    /// Arrival number of the request that it is for.
    owner: u64,
    from: i32,
    to: i32,
}

/// Owns every page. Requests hold pages by their [`PageTable`], which it alone fills and empties.
#[derive(Debug)]
pub(crate) struct Cache {
    pub(super) pool: PagePool,
    /// What the plan in the making copies before its forward, in order.
    copies: Vec<SlotCopy>,
    /// Pages held until that plan is complete, because it copies from them.
    pins: Vec<u32>,
}

/// How full the cache is, in pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Occupancy {
    /// Held by requests.
    pub(crate) held: usize,
    /// Kept for their prefix, held by no request.
    pub(crate) idle: usize,
    /// All there are.
    pub(crate) total: usize,
}

impl Cache {
    /// `num_pages` free pages of `page_size` slots.
    pub(crate) fn new(num_pages: usize, page_size: usize) -> Self {
        Self {
            pool: PagePool::new(num_pages, page_size),
            copies: Vec::new(),
            pins: Vec::new(),
        }
    }

    pub(crate) fn page_size(&self) -> usize {
        self.pool.page_size()
    }

    /// Pages that hold `tokens` slots.
    pub(crate) fn pages_for(&self, tokens: usize) -> usize {
        self.pool.pages_for(tokens)
    }

    /// Pages that requests may be given, kept prefixes included.
    pub(crate) fn num_available(&self) -> usize {
        self.pool.num_available()
    }

    pub(crate) fn occupancy(&self) -> Occupancy {
        Occupancy {
            held: self.pool.num_held(),
            idle: self.pool.num_idle(),
            total: self.pool.total(),
        }
    }

    /// The slot of the token at `index` of a request.
    pub(crate) fn slot(&self, table: &PageTable, index: usize) -> i32 {
        self.pool.slot(&table.pages, index)
    }

    /// Finds the full pages that hold the beginning of `reusable`, the tokens of a waiting request
    /// whose keys may come from the cache. None is held by this.
    pub(crate) fn find(&self, table: &mut PageTable, reusable: &[u32]) -> CachedPrefix {
        let found = &mut table.found;
        self.pool.find(&table.namespace, reusable, found);
        CachedPrefix {
            pages: found.pages().to_vec(),
        }
    }

    /// See [`reuse::computing`].
    pub(crate) fn computing<'a>(
        &self,
        table: &PageTable,
        reusable: &[u32],
        prefix: &CachedPrefix,
        prefilling: impl Iterator<Item = Resident<'a>>,
    ) -> Option<RequestKey> {
        reuse::computing(self.page_size(), table, reusable, prefix, prefilling)
    }

    /// Pages that a request of `num_tokens` tokens takes out of those available if it starts from
    /// `prefix`.
    pub(crate) fn price(&self, prefix: &CachedPrefix, num_tokens: usize) -> usize {
        let num_new = self.pages_for(num_tokens) - prefix.pages.len();
        num_new + self.pool.num_idle_of(&prefix.pages)
    }

    /// Gives a request the pages of `prefix` and new ones for the rest of its `num_tokens` tokens,
    /// which are known to be available; the next plan copies what another page holds of the next
    /// tokens.
    pub(crate) fn seat<'a>(
        &mut self,
        owner: u64,
        table: &mut PageTable,
        prefix: CachedPrefix,
        num_tokens: usize,
        reusable: &[u32],
        running: impl Iterator<Item = Resident<'a>>,
    ) {
        for &page in &prefix.pages {
            self.pool.hold(page);
            self.pool.touch(page, table.keeps);
        }
        table.num_shared = prefix.pages.len();
        table.kv_len = table.num_shared * self.page_size();
        table.pages = prefix.pages;
        let num_new = self.pages_for(num_tokens) - table.num_shared;
        let copied = reuse::longest_beginning(&self.pool, table, reusable, running)
            .filter(|&(page, _)| num_new + self.pool.num_idle_of(&[page]) <= self.num_available());
        if let Some((page, _)) = copied {
            // It must not be handed out before it is copied from.
            self.pool.hold(page);
            self.pins.push(page);
        }
        self.pool.grow(&mut table.pages, num_tokens);
        if let Some((page, count)) = copied {
            for offset in 0..count {
                let copy = SlotCopy {
                    owner,
                    from: self.pool.slot_in(page, offset),
                    to: self.pool.slot(&table.pages, table.kv_len + offset),
                };
                self.copies.push(copy);
            }
            table.kv_len += count;
        }
    }

    /// Shares the pages of a running request that are full of `tokens`, orders the copies of accepted
    /// rows that are out of place and, of one that decodes, takes back the pages that only drafts
    /// needed.
    pub(crate) fn settle(
        &mut self,
        owner: u64,
        table: &mut PageTable,
        tokens: &[u32],
        is_decoding: bool,
    ) {
        // Before the moves: pages they write to are shared when they have been done.
        reuse::share_filled(&mut self.pool, table, tokens);
        for (from, to) in table.moves.drain(..) {
            self.copies.push(SlotCopy {
                owner,
                from: self.pool.slot(&table.pages, from),
                to: self.pool.slot(&table.pages, to),
            });
        }
        if is_decoding {
            self.pool.shrink(&mut table.pages, table.kv_len + 1);
        }
    }

    /// Gives a decoding request a slot for its last token; false when no page is left for it.
    pub(crate) fn grow_for_token(&mut self, table: &mut PageTable) -> bool {
        self.pool.grow(&mut table.pages, table.kv_len + 1)
    }

    /// Gives a decoding request slots for up to `wanted` drafts; for how many there are some.
    pub(crate) fn grow_for_drafts(&mut self, table: &mut PageTable, wanted: usize) -> usize {
        let base = table.kv_len + 1;
        let count = wanted.min(self.pool.reach(&table.pages).saturating_sub(base));
        self.pool.grow(&mut table.pages, base + count);
        count
    }

    /// The copies of the plan in the making, in order: slots from, slots to. Pages that they copy
    /// from are let go of: the plan is complete.
    pub(crate) fn take_copies(&mut self) -> (Vec<i32>, Vec<i32>) {
        for page in std::mem::take(&mut self.pins) {
            self.pool.release(page);
        }
        let copies = std::mem::take(&mut self.copies);
        copies.iter().map(|copy| (copy.from, copy.to)).unzip()
    }

    /// Shares what an ending request filled, and takes its pages back.
    pub(crate) fn close(&mut self, owner: u64, table: &mut PageTable, tokens: &[u32]) {
        reuse::share_filled(&mut self.pool, table, tokens);
        self.vacate(owner, table);
    }

    /// Takes all pages of a request back and forgets what was in them, so that everything is
    /// computed again; what others can find stays.
    pub(crate) fn vacate(&mut self, owner: u64, table: &mut PageTable) {
        self.pool.shrink(&mut table.pages, 0);
        self.copies.retain(|copy| copy.owner != owner);
        table.kv_len = 0;
        table.num_shared = 0;
        table.moves.clear();
    }

    /// Drops the kept pages of a namespace.
    pub(crate) fn forget(&mut self, namespace: &str) {
        self.pool.forget(namespace);
    }

    /// Up to `count` pages that no request holds or needs the content of; they stay free.
    pub(crate) fn scratch(&mut self, count: usize) -> Vec<u32> {
        self.pool.scratch(count)
    }
}

#[cfg(test)]
impl Cache {
    /// Compares it with what requests say, between two plans.
    pub(crate) fn check<'a>(
        &self,
        running: impl Iterator<Item = Resident<'a>>,
        waiting: impl Iterator<Item = Resident<'a>>,
    ) {
        assert!(self.pins.is_empty() && self.copies.is_empty());
        super::ledger::check(self, &self.pool, running, waiting);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::siblings::count;
    use super::*;

    const PAGE: usize = 4;

    /// A request of a cache alone.
    struct User {
        key: RequestKey,
        table: PageTable,
        tokens: Vec<u32>,
    }

    impl User {
        fn new(arrival: u64, tokens: &[u32]) -> Self {
            Self {
                key: RequestKey::new(arrival),
                table: PageTable::new(Arc::from("a"), true),
                tokens: tokens.to_vec(),
            }
        }

        fn resident(&self) -> Resident<'_> {
            Resident {
                key: self.key,
                table: &self.table,
                tokens: &self.tokens,
            }
        }

        fn reusable(&self) -> &[u32] {
            &self.tokens[..self.tokens.len() - 1]
        }

        /// Takes its place beside `others`.
        fn enter(&mut self, cache: &mut Cache, others: &[&User]) {
            let end = self.tokens.len() - 1;
            let prefix = cache.find(&mut self.table, &self.tokens[..end]);
            let running = others.iter().map(|one| one.resident());
            let (owner, count) = (self.key.arrival(), self.tokens.len());
            let reusable = &self.tokens[..end];
            cache.seat(owner, &mut self.table, prefix, count, reusable, running);
        }

        /// Computes the rest of its tokens.
        fn compute(&mut self, cache: &mut Cache) {
            self.table.advance(self.tokens.len() - self.table.kv_len());
            cache.settle(self.key.arrival(), &mut self.table, &self.tokens, false);
        }
    }

    fn check(cache: &Cache, users: &[&User]) {
        cache.check(users.iter().map(|one| one.resident()), std::iter::empty());
    }

    #[test]
    fn a_second_request_takes_full_pages_and_copies_the_beginning_of_the_next() {
        let mut cache = Cache::new(8, PAGE);
        let text: Vec<u32> = (1..=11).collect();
        let mut first = User::new(0, &text);
        first.enter(&mut cache, &[]);
        assert_eq!(first.table.kv_len(), 0);
        first.compute(&mut cache);
        let mut second = User::new(1, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 77]);
        second.enter(&mut cache, &[&first]);
        // Two pages are shared; two tokens of the third are copied.
        assert_eq!(second.table.kv_len(), 10);
        assert_eq!(second.table.pages()[..2], first.table.pages()[..2]);
        let (from, to) = cache.take_copies();
        assert_eq!(
            from,
            [cache.slot(&first.table, 8), cache.slot(&first.table, 9)]
        );
        assert_eq!(
            to,
            [cache.slot(&second.table, 8), cache.slot(&second.table, 9)]
        );
        check(&cache, &[&first, &second]);
        assert_eq!(cache.occupancy().held, 4);
    }

    #[test]
    fn texts_behind_one_system_prompt_are_not_searched_one_by_one() {
        // Pages that are compared to seat one more text behind a page with so many others.
        let compared = |num_texts: u32| {
            let mut cache = Cache::new(2 * num_texts as usize, PAGE);
            let text = |index: u32| {
                let own = [index / 128, index % 128, 5, 6, 7].map(|token| token + 10);
                [vec![1, 2, 3, 4], own.to_vec()].concat()
            };
            for index in 0..num_texts {
                let mut user = User::new(u64::from(index), &text(index));
                user.enter(&mut cache, &[]);
                user.compute(&mut cache);
                cache.take_copies();
                cache.close(u64::from(index), &mut user.table, &user.tokens);
            }
            let mut other = text(num_texts / 2);
            other[7] = 9;
            let mut user = User::new(u64::from(num_texts), &other);
            count::take();
            user.enter(&mut cache, &[]);
            assert_eq!(user.table.kv_len(), PAGE + 3, "it copies what it can");
            count::take()
        };
        let (few, many) = (compared(100), compared(16_000));
        assert!(few <= 50 && many <= 100, "{few} {many}");
    }

    #[test]
    fn what_a_running_request_computes_next_is_waited_for_and_little_is_not() {
        let mut cache = Cache::new(8, PAGE);
        let mut first = User::new(0, &[1, 2, 3, 4, 5, 6]);
        first.enter(&mut cache, &[]);
        let awaited = |tokens: &[u32]| {
            let mut second = User::new(1, tokens);
            let end = tokens.len() - 1;
            let prefix = cache.find(&mut second.table, &tokens[..end]);
            let prefilling = std::iter::once(first.resident());
            cache.computing(&second.table, second.reusable(), &prefix, prefilling)
        };
        assert_eq!(awaited(&[1, 8, 9, 9]), None);
        assert_eq!(awaited(&[1, 2, 9]), Some(first.key));
        // One token is less than half a page.
        assert_eq!(awaited(&[1, 9]), None);
        assert_eq!(awaited(&[1, 2, 3, 4, 9]), Some(first.key));
    }

    #[test]
    fn copies_of_a_request_go_with_its_pages() {
        let mut cache = Cache::new(6, PAGE);
        let mut user = User::new(0, &[1, 2, 3, 4, 5]);
        user.enter(&mut cache, &[]);
        user.compute(&mut cache);
        assert_eq!(cache.grow_for_drafts(&mut user.table, 3), 3);
        user.table.accept(&[2]);
        user.tokens.extend([6, 7]);
        user.table.advance(2);
        cache.settle(0, &mut user.table, &user.tokens, true);
        cache.vacate(0, &mut user.table);
        assert_eq!(cache.take_copies(), (Vec::new(), Vec::new()));
        assert_eq!((user.table.kv_len(), user.table.pages().len()), (0, 0));
        check(&cache, &[]);
    }

    #[test]
    fn drafts_get_what_is_left_and_give_it_back() {
        let mut cache = Cache::new(2, PAGE);
        let mut user = User::new(0, &[1, 2, 3, 4, 5]);
        user.enter(&mut cache, &[]);
        user.compute(&mut cache);
        assert!(cache.grow_for_token(&mut user.table));
        assert_eq!(cache.grow_for_drafts(&mut user.table, 9), 2);
        cache.settle(0, &mut user.table, &user.tokens, true);
        assert_eq!(cache.num_available(), 0);
        cache.close(0, &mut user.table, &user.tokens);
        assert_eq!((cache.num_available(), cache.occupancy().idle), (2, 1));
        cache.forget("a");
        assert_eq!(cache.occupancy().idle, 0);
        assert_eq!(cache.scratch(9).len(), 2);
    }
}
