//! The key-value cache: its pages, the copies that are due, and who shares what.

use spectrie_types::sizes::MAX_DRAFTERS;

use super::draft_keys::DraftKeys;
use super::features::Features;
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
    /// Pages held because the forward of a plan writes to them: the plan's number, the page.
    pub(super) written: Vec<(u64, u32)>,
    /// What the rows of a drafter need of others; `None` without one that reads features.
    pub(super) features: Option<Features>,
    /// What each drafter that reads no features has keys of.
    pub(super) draft_keys: Vec<DraftKeys>,
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
            written: Vec::new(),
            features: None,
            draft_keys: Vec::new(),
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
        let pages = found.pages();
        let num_usable = match &self.features {
            Some(features) => features.num_usable(pages),
            None => pages.len(),
        };
        CachedPrefix {
            followed_from: Some(0),
            pages: pages[..num_usable].to_vec(),
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
        table.num_drafted = [0; MAX_DRAFTERS];
        for keys in &self.draft_keys {
            let num_tokens = keys.num_known(&table.pages) * self.page_size();
            table.num_drafted[keys.drafter()] = num_tokens;
        }
        let num_new = self.pages_for(num_tokens) - table.num_shared;
        let size = self.page_size();
        let features = self.features.as_ref();
        let from = prefix.followed_from.filter(|_| features.is_some());
        let num_lacking = features.map_or(0, |features| features.num_lacking(&table.pages)) * size;
        let start = table.kv_len;
        // Of tokens between what was found and `from`, nothing is kept.
        table.first_entry = match from.map(|from| from / size * size) {
            Some(from) if from > start => from,
            Some(_) => num_lacking,
            None => 0,
        };
        // Behind entries, what drafters lack is of no use to them.
        let follows =
            from.is_some() && (table.first_entry < start || (start == 0 && table.first_entry == 0));
        let running = running
            .filter(|one| !follows || (one.table.seat.is_some() && one.table.first_entry <= start));
        let features = features.filter(|_| follows);
        let may_copy = |page: u32| !features.is_some_and(|features| features.is_left_out(page));
        let copied = reuse::longest_beginning(&self.pool, table, reusable, running, may_copy)
            .filter(|&(page, _)| num_new + self.pool.num_idle_of(&[page]) <= self.num_available())
            // The last one is computed again where its feature is needed.
            .filter(|&(_, count)| count > usize::from(follows));
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
            if let Some(features) = self.features.as_mut().filter(|_| !follows) {
                // Even where all of a page is copied.
                features.leave_out(&table.pages, size, start, count);
            }
            table.kv_len += count - usize::from(follows);
        }
        if let Some(features) = self.features.as_mut().filter(|_| from.is_some()) {
            // A token whose keys were copied is computed again, and gives its feature.
            let page = table.pages[..table.num_shared].last();
            let page = page.filter(|&&page| copied.is_none() && features.is_known(page));
            let page = page.copied();
            table.seat = features.seat(page, table.kv_len);
            let is_next_known = page.is_some() || (follows && copied.is_some());
            if !is_next_known && table.kv_len > 0 {
                table.first_entry = table.first_entry.max(table.kv_len + 1);
            }
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
        self.share_filled(table, tokens);
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
        self.share_filled(table, tokens);
        self.vacate(owner, table);
    }

    fn share_filled(&mut self, table: &mut PageTable, tokens: &[u32]) {
        let first = table.num_shared;
        let replaced = reuse::share_filled(&mut self.pool, table, tokens);
        let page_size = self.page_size();
        if let Some(features) = self.features.as_mut().filter(|_| !replaced.is_empty()) {
            features.note_replaced(&replaced);
            // Of its own pages behind its first entry, they lack none.
            let new = &table.pages[first..table.num_shared];
            if let last @ 1.. = features.num_lacking(new) {
                table.first_entry = table.first_entry.max((first + last) * page_size);
            }
        }
        for keys in &mut self.draft_keys {
            keys.note_shared(table, first, &replaced, page_size);
        }
    }

    /// Takes all pages of a request back and forgets what was in them, so that everything is
    /// computed again; what others can find stays.
    pub(crate) fn vacate(&mut self, owner: u64, table: &mut PageTable) {
        self.pool.shrink(&mut table.pages, 0);
        self.copies.retain(|copy| copy.owner != owner);
        self.leave_out(table);
        table.kv_len = 0;
        table.num_shared = 0;
        table.num_drafted = [0; MAX_DRAFTERS];
        table.moves.clear();
    }

    /// Drops the kept pages of a namespace.
    pub(crate) fn forget(&mut self, namespace: &str) {
        self.pool.forget(namespace);
    }

    /// Up to `count` pages that no request holds or needs the content of; they stay free. What writes to
    /// them is another forward.
    pub(crate) fn scratch(&mut self, count: usize) -> Vec<u32> {
        self.doubt_features();
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
