//! The rows of one level of a drafter, as arrays.

/// What a drafter is asked in one level of a step. All arrays are `i32`; R rows, Q requests, M moves.
///
/// A row is a token after a known path: it sees the drafter's keys of the request's committed tokens,
/// from the second on, those of its ancestors among the rows of this step, and its own. Its feature is
/// that of its parent row, in the first level that of the request's last committed token.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DraftPlan {
    /// Which drafter is asked, by its number; its copies are for all of them.
    pub drafter: usize,
    /// Counts from 1. Rows of the first have no parents, those of others have parents in the level before.
    pub level: usize,
    /// Number of the first row among all that this drafter is asked in this step.
    pub row_index: usize,
    /// Token of each row, \[R\].
    pub row_token: Vec<i32>,
    /// Its position, \[R\].
    pub row_position: Vec<i32>,
    /// Index of its request below, \[R\], ascending.
    pub row_request: Vec<i32>,
    /// Number of its parent among all rows of this step, −1 in the first level, \[R\].
    pub row_parent: Vec<i32>,
    /// Tokens of each request in the cache, \[Q\].
    pub request_kv_len: Vec<i32>,
    /// Row of the feature store with the feature of the last of them, −1 for a drafter that reads none, \[Q\].
    pub request_feature: Vec<i32>,
    /// Position of the first of them that its rows see, \[Q\]: the drafter lacks keys of those before it.
    pub request_first: Vec<i32>,
    /// Where each request's pages start in `page_ids`, \[Q + 1\].
    pub page_indptr: Vec<i32>,
    /// Pages that hold the tokens in the cache.
    pub page_ids: Vec<i32>,
    /// Position of the first token of each request that the drafter is to make keys of before the rows, \[Q\].
    pub request_fill_start: Vec<i32>,
    /// Where each request's such tokens start in `fill_token`, \[Q + 1\].
    pub fill_indptr: Vec<i32>,
    /// Those tokens; none for a drafter that reads features. A request may have some and no row.
    pub fill_token: Vec<i32>,
    /// Where the tokens whose log-probabilities after a row are wanted start in `scored_token`, \[R + 1\].
    pub scored_indptr: Vec<i32>,
    /// Those tokens, at most [`MAX_NAMED`](spectrie_trie::MAX_NAMED) a row.
    pub scored_token: Vec<i32>,
    /// Slots to copy from before anything else, in order, \[M\]: the forward that follows does not.
    pub kv_move_src: Vec<i32>,
    /// Slots to copy to, \[M\].
    pub kv_move_dst: Vec<i32>,
    /// As of a [`Plan`](crate::Plan).
    pub feature_moves: Vec<[i32; 2]>,
    /// As of a [`Plan`](crate::Plan).
    pub feature_copies: Vec<[i32; 2]>,
}

impl DraftPlan {
    /// Rows of the level.
    pub fn num_rows(&self) -> usize {
        self.row_token.len()
    }

    /// Requests with rows, or with keys to be made.
    pub fn num_requests(&self) -> usize {
        self.request_kv_len.len()
    }
}
