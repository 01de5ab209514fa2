//! The rows of one forward, as arrays.

/// What one forward computes. All arrays are `i32` unless said; R rows, Q requests, S sampled rows,
/// T top rows, M moves.
///
/// Row `j` of a request has logical index `request_kv_len + j` in its cache and lives in slot
/// `page_ids[page_indptr[q] + index / page_size] * page_size + index % page_size`. A chunk row sees
/// logical indices `0..=kv_len + j`; a tree row sees `0..kv_len` and the rows of its request whose bit is set in
/// its ancestor word.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Number of this plan; `commit` takes it with the results.
    pub plan_id: u64,
    /// Token of each row, \[R\]; in an early plan, −2 − i for the one that the i-th sampled row of the plan
    /// before it gives.
    pub row_token: Vec<i32>,
    /// Position (for rotary embedding) of each row, \[R\].
    pub row_position: Vec<i32>,
    /// Slot that takes the row's key and value, \[R\].
    pub row_slot: Vec<i32>,
    /// Index of the row's request, \[R\].
    pub row_owner: Vec<i32>,
    /// Index of the row's parent within its request, −1 for the first, \[R\].
    pub row_parent: Vec<i32>,
    /// Bit j = may see row j of its request, itself included; 0 in chunks, \[R\], `i64`.
    pub row_ancestors: Vec<i64>,
    /// First row of each request, \[Q\].
    pub request_row_start: Vec<i32>,
    /// Rows of each request, \[Q\].
    pub request_row_count: Vec<i32>,
    /// Handle of each request, \[Q\], `u64`.
    pub request_handle: Vec<u64>,
    /// Tokens of each request already in the cache, \[Q\].
    pub request_kv_len: Vec<i32>,
    /// 0 = chunk of a prompt, 1 = tree, \[Q\].
    pub request_kind: Vec<i32>,
    /// Where each request's pages start in `page_ids`, \[Q + 1\].
    pub page_indptr: Vec<i32>,
    /// Pages that cover `kv_len + row_count` slots of each request.
    pub page_ids: Vec<i32>,
    /// Rows whose logits are needed, ascending, \[S\].
    pub sample_rows: Vec<i32>,
    /// Where each request's rows start in `sample_rows`, \[Q + 1\].
    pub sample_indptr: Vec<i32>,
    /// Rows whose likeliest tokens are wanted, ascending: none, or the sampled rows and maybe
    /// others, \[T\].
    pub top_rows: Vec<i32>,
    /// Slots to copy from, in order, before the forward, \[M\].
    pub kv_move_src: Vec<i32>,
    /// Slots to copy to, \[M\].
    pub kv_move_dst: Vec<i32>,
    /// Row of the feature store that the first row of each request follows, −1 where that is not known:
    /// then the drafter's keys of that row are there already, or position 0. [`LEFT_OUT`](crate::LEFT_OUT) where drafters keep
    /// nothing of the request's rows. Empty without a drafter, else \[Q\].
    pub request_feature: Vec<i32>,
    /// Position of the first token of each request of which drafters keep something; 0 but for those that they follow from
    /// further on. Empty without a drafter, else \[Q\].
    pub request_first: Vec<i32>,
    /// Features to copy before the forward, from a row of the last forward to one of the store.
    pub feature_moves: Vec<[i32; 2]>,
    /// Features to copy between rows of the store, in order, after those.
    pub feature_copies: Vec<[i32; 2]>,
    /// Whether every sampled row only needs its largest logit, so that `commit_tokens` will do.
    pub is_greedy: bool,
    /// Indices into `sample_rows` of those whose log-probabilities are wanted, ascending: they need their
    /// logits, the others only a token.
    pub logit_samples: Vec<i32>,
}

/// Kind of a request's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum RowKind {
    /// Consecutive tokens of a prompt.
    Chunk = 0,
    /// The last emitted token and its drafts.
    Tree = 1,
}

impl Plan {
    /// A plan with room for the given numbers of rows, requests and pages.
    pub(crate) fn new(plan_id: u64, rows: usize, requests: usize, pages: usize) -> Self {
        let of_rows = || Vec::with_capacity(rows);
        let of_requests = || Vec::with_capacity(requests);
        let indptr = || {
            let mut starts = Vec::with_capacity(requests + 1);
            starts.push(0);
            starts
        };
        Self {
            plan_id,
            row_token: of_rows(),
            row_position: of_rows(),
            row_slot: of_rows(),
            row_owner: of_rows(),
            row_parent: of_rows(),
            row_ancestors: Vec::with_capacity(rows),
            request_row_start: of_requests(),
            request_row_count: of_requests(),
            request_handle: Vec::with_capacity(requests),
            request_kv_len: of_requests(),
            request_kind: of_requests(),
            page_indptr: indptr(),
            page_ids: Vec::with_capacity(pages),
            sample_rows: of_rows(),
            sample_indptr: indptr(),
            top_rows: of_rows(),
            kv_move_src: Vec::new(),
            kv_move_dst: Vec::new(),
            request_feature: Vec::new(),
            request_first: Vec::new(),
            feature_moves: Vec::new(),
            feature_copies: Vec::new(),
            is_greedy: true,
            logit_samples: Vec::new(),
        }
    }

    /// Rows of the forward.
    pub fn num_rows(&self) -> usize {
        self.row_token.len()
    }

    /// Requests with rows.
    pub fn num_requests(&self) -> usize {
        self.request_kind.len()
    }

    /// Rows whose logits are needed.
    pub fn num_samples(&self) -> usize {
        self.sample_rows.len()
    }

    /// Whether [`Verdicts::Drawn`](crate::Verdicts::Drawn) saves any logits: not all sampled rows need them.
    pub fn is_drawable(&self) -> bool {
        self.logit_samples.is_empty() || self.logit_samples.len() < self.num_samples()
    }

    /// Rows whose likeliest tokens are wanted.
    pub fn num_tops(&self) -> usize {
        self.top_rows.len()
    }

    /// Begins a request's rows.
    pub(crate) fn open(&mut self, handle: u64, kind: RowKind, kv_len: usize) {
        self.request_handle.push(handle);
        self.request_row_start.push(self.num_rows() as i32);
        self.request_kv_len.push(kv_len as i32);
        self.request_kind.push(kind as i32);
    }

    /// Adds a row to the open request.
    pub(crate) fn push_row(&mut self, row: Row) {
        self.row_owner.push(self.num_requests() as i32 - 1);
        self.row_token.push(row.token);
        self.row_position.push(row.position as i32);
        self.row_slot.push(row.slot);
        self.row_parent.push(row.parent);
        self.row_ancestors.push(row.ancestors as i64);
        let index = self.num_rows() as i32 - 1;
        if row.sampled {
            self.sample_rows.push(index);
        }
        if row.sampled || row.top {
            self.top_rows.push(index);
        }
    }

    /// Ends the open request's rows; `pages` are those that cover them.
    pub(crate) fn close(&mut self, pages: &[u32]) {
        let start = self.request_row_start.last().copied().unwrap_or(0);
        self.request_row_count.push(self.num_rows() as i32 - start);
        self.page_ids.extend(pages.iter().map(|&page| page as i32));
        self.page_indptr.push(self.page_ids.len() as i32);
        self.sample_indptr.push(self.sample_rows.len() as i32);
    }
}

/// Stands for the token that the `index`-th sampled row of the plan before gives.
pub(crate) fn drawn_token(index: usize) -> i32 {
    -2 - index as i32
}

/// One row of a plan.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) token: i32,
    pub(crate) position: usize,
    pub(crate) slot: i32,
    pub(crate) parent: i32,
    pub(crate) ancestors: u64,
    /// Whether its logits are needed.
    pub(crate) sampled: bool,
    /// Whether its likeliest tokens are wanted, as those of every sampled row.
    pub(crate) top: bool,
}
