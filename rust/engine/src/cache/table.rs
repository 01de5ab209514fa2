//! The pages of one request.

use std::sync::Arc;

use spectrie_types::sizes::MAX_DRAFTERS;

use super::features::Seat;
use super::pool::FoundPages;

/// The pages of one request, and how far they are filled.
///
/// Keys and values of its first `kv_len` tokens are in its pages, each in its place but for `moves`.
/// The first `num_shared` pages are full, and others can find them.
#[derive(Debug)]
pub(crate) struct PageTable {
    /// Whose pages it may take, and who may take its own.
    pub(super) namespace: Arc<str>,
    /// Whether its full pages outlive it.
    pub(super) keeps: bool,
    pub(super) pages: Vec<u32>,
    pub(super) kv_len: usize,
    pub(super) num_shared: usize,
    /// Whether others may find its pages.
    pub(super) shares: bool,
    /// Logical (from, to) of accepted rows that are not yet in place.
    pub(super) moves: Vec<(usize, usize)>,
    /// What the cache held of its text when it last waited.
    pub(super) found: FoundPages,
    /// Where the feature of its last token is; `None` without a drafter, and while it waits.
    pub(super) seat: Option<Seat>,
    /// Index of its first token of which drafters that read features have an entry, while it is followed.
    pub(super) first_entry: usize,
    /// Tokens from the first on of which each drafter that reads no features has keys in its pages.
    pub(super) num_drafted: [usize; MAX_DRAFTERS],
}

impl PageTable {
    /// A table without pages; its full pages are kept for others if it `keeps`.
    pub(crate) fn new(namespace: Arc<str>, keeps: bool) -> Self {
        Self {
            namespace,
            keeps,
            pages: Vec::new(),
            kv_len: 0,
            num_shared: 0,
            shares: true,
            moves: Vec::new(),
            found: FoundPages::default(),
            seat: None,
            first_entry: 0,
            num_drafted: [0; MAX_DRAFTERS],
        }
    }

    pub(crate) fn namespace(&self) -> &Arc<str> {
        &self.namespace
    }

    /// Tokens whose keys and values are in the cache.
    pub(crate) fn kv_len(&self) -> usize {
        self.kv_len
    }

    /// Its pages, from the first on.
    pub(crate) fn pages(&self) -> &[u32] {
        &self.pages
    }

    /// Tokens that are in the cache, each in its place.
    pub(super) fn num_settled(&self) -> usize {
        self.moves.first().map_or(self.kv_len, |&(_, to)| to)
    }

    /// Notes that the next `count` tokens were computed.
    pub(crate) fn advance(&mut self, count: usize) {
        self.kv_len += count;
    }

    /// Notes which rows of a tree, whose root is the next token, were accepted, from the root down:
    /// those that are not where plain decoding would have put them are moved before the next
    /// forward. [`Self::advance`] comes after it.
    pub(crate) fn accept(&mut self, path: &[usize]) {
        for (depth, &row) in (1..).zip(path) {
            if row != depth {
                self.moves.push((self.kv_len + row, self.kv_len + depth));
            }
        }
    }

    /// Hides its pages from other requests from now on, and those it shared so far.
    pub(crate) fn forget(&mut self) {
        self.shares = false;
        self.num_shared = 0;
    }

    /// Shares no further pages: what a failed plan was to put in them may not be there.
    pub(crate) fn distrust(&mut self) {
        self.shares = false;
    }

    /// Whether it and `other` have the first `count` pages in common, and both may share.
    pub(super) fn continues(
        &self,
        namespace: &Arc<str>,
        before: Option<&u32>,
        count: usize,
    ) -> bool {
        self.shares
            && self.namespace == *namespace
            && self.num_shared == count
            && self.pages[..count].last() == before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted_rows_out_of_place_are_moved_behind_what_is_settled() {
        let mut table = PageTable::new(Arc::from("a"), true);
        table.advance(5);
        table.accept(&[1, 4, 3]);
        assert_eq!(table.moves, [(9, 7)]);
        table.advance(4);
        assert_eq!((table.kv_len(), table.num_settled()), (9, 7));
    }
}
