//! The features that a drafter's rows take: which row of the store holds which.
//!
//! The feature of a token is what the model's layers gave at its row. A drafter's row takes that of
//! the token before its own. The runner keeps those of its last forward, and a store: a row for the last
//! token of each full page, then one for the last token of each running request. This says what the
//! runner copies there, and knows what is there.
//!
//! Requests may be left out: drafters then keep nothing of their rows from there on. One without a row of the store is.
//! Others are followed, maybe from further on than their first token: behind pages that such requests filled, and of one that
//! is followed again.

/// In place of a row of the store: drafters keep nothing of the request's rows.
pub const LEFT_OUT: i32 = -2;

/// The row of the store that holds the feature of a running request's last token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seat {
    row: u32,
    /// Tokens up to the one whose feature it holds; `None` while it holds that of none.
    num_tokens: Option<usize>,
}

/// What the runner copies between rows of features before its next call, as \[from, to\].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FeatureCopies {
    /// From rows of the last forward to rows of the store.
    pub(crate) moves: Vec<[i32; 2]>,
    /// Between rows of the store, in order, after those.
    pub(crate) copies: Vec<[i32; 2]>,
}

impl Seat {
    /// Its row, where that holds the feature of the last of `num_tokens` tokens.
    pub(super) fn row_after(self, num_tokens: usize) -> Option<i32> {
        (self.num_tokens == Some(num_tokens)).then_some(self.row as i32)
    }
}

impl FeatureCopies {
    pub(crate) fn is_empty(&self) -> bool {
        self.moves.is_empty() && self.copies.is_empty()
    }

    fn targets(&self) -> impl Iterator<Item = usize> {
        let all = self.moves.iter().chain(&self.copies);
        all.map(|&[_, to]| to as usize)
    }
}

/// What the store holds.
#[derive(Debug)]
pub(crate) struct Features {
    /// Whether the row of each page holds the feature of its last token.
    known: Vec<bool>,
    /// Whether drafters lack entries of its tokens.
    left_out: Vec<bool>,
    /// Rows of requests that no request has.
    free: Vec<u32>,
    ordered: FeatureCopies,
    /// Rows that copies write to that the runner was given, and may not have done yet.
    unsure: Vec<usize>,
}

impl Features {
    /// A store of which nothing is known.
    pub(super) fn new(num_pages: usize, max_running: usize) -> Self {
        let (first, last) = (num_pages as u32, (num_pages + max_running) as u32);
        Self {
            known: vec![false; num_pages],
            left_out: vec![false; num_pages],
            free: (first..last).rev().collect(),
            ordered: FeatureCopies::default(),
            unsure: Vec::new(),
        }
    }

    /// How many of `pages`, the beginning of a text, a request may go on after: the feature of the last
    /// of their tokens must be known, but where drafters lack some of their entries anyway.
    pub(super) fn num_usable(&self, pages: &[u32]) -> usize {
        if self.num_lacking(pages) > 0 {
            return pages.len();
        }
        let last = pages.iter().rposition(|&page| self.known[page as usize]);
        last.map_or(0, |index| index + 1)
    }

    /// Whether drafters lack entries of a full page's tokens.
    pub(super) fn is_left_out(&self, page: u32) -> bool {
        self.left_out[page as usize]
    }

    /// How many full pages there are up to the last one whose entries they lack.
    pub(super) fn num_lacking(&self, pages: &[u32]) -> usize {
        let last = pages.iter().rposition(|&page| self.is_left_out(page));
        last.map_or(0, |index| index + 1)
    }

    /// Whether the feature of a full page's last token is there.
    pub(super) fn is_known(&self, page: u32) -> bool {
        self.known[page as usize]
    }

    /// Notes that drafters keep nothing of so many tokens of a request from the one at `first` on.
    pub(super) fn leave_out(
        &mut self,
        pages: &[u32],
        page_size: usize,
        first: usize,
        num_tokens: usize,
    ) {
        for &page in &pages[first / page_size..(first + num_tokens) / page_size] {
            self.known[page as usize] = false;
            self.left_out[page as usize] = true;
        }
    }

    /// Gives a request of `num_tokens` tokens in the cache a row, with the feature of the last one, which
    /// ends `page`, where that is known.
    pub(super) fn seat(&mut self, page: Option<u32>, num_tokens: usize) -> Option<Seat> {
        let row = self.free.pop()?;
        if let Some(page) = page {
            self.ordered.copies.push([page as i32, row as i32]);
        }
        Some(Seat {
            row,
            num_tokens: page.map(|_| num_tokens),
        })
    }

    /// Takes back the row of a request that does not run any more.
    pub(super) fn give_back(&mut self, seat: Seat) {
        self.free.push(seat.row);
    }

    /// Orders the features of a request's tokens to where they belong: the index of each, and the row of
    /// the last forward that computed it. Entries begin with the token at `first_entry`.
    pub(super) fn keep(
        &mut self,
        seat: &mut Seat,
        (pages, page_size): (&[u32], usize),
        first_entry: usize,
        computed: impl Iterator<Item = (usize, usize)>,
    ) {
        let mut last = None;
        for (index, row) in computed {
            let end = index + 1;
            if end.is_multiple_of(page_size) {
                let page = pages[index / page_size];
                self.ordered.moves.push([row as i32, page as i32]);
                self.known[page as usize] = true;
                self.left_out[page as usize] = end - page_size < first_entry;
            }
            last = Some((row, end));
        }
        if let Some((row, end)) = last {
            self.ordered.moves.push([row as i32, seat.row as i32]);
            seat.num_tokens = Some(end);
        }
    }

    /// Notes pages that were replaced by others that hold the same.
    pub(super) fn note_replaced(&mut self, replaced: &[(u32, u32)]) {
        for &(own, other) in replaced {
            if self.known[own as usize] && !self.known[other as usize] {
                self.ordered.copies.push([own as i32, other as i32]);
                self.known[other as usize] = true;
            }
        }
    }

    /// Hands out what was ordered.
    pub(super) fn take(&mut self) -> FeatureCopies {
        let ordered = std::mem::take(&mut self.ordered);
        self.unsure.extend(ordered.targets());
        ordered
    }

    /// Notes that the runner has done what it was given.
    pub(super) fn settle(&mut self) {
        self.unsure.clear();
    }

    /// Forgets what was ordered and may not have been done.
    pub(super) fn doubt(&mut self) {
        let ordered = std::mem::take(&mut self.ordered);
        let rows = std::mem::take(&mut self.unsure);
        for row in rows.into_iter().chain(ordered.targets()) {
            if let Some(known) = self.known.get_mut(row) {
                *known = false;
            }
        }
    }
}
