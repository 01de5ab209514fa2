//! What callers pass to a drafter, and what they get.

use crate::error::CpuError;

/// Copies of features before a forward or a level; each pair is (from, to).
#[derive(Debug, Clone, Copy, Default)]
pub struct FeatureMoves<'a> {
    /// From rows of the last forward to rows of the store, flat pairs `[2 M]`.
    pub from_rows: &'a [i32],
    /// From rows of the store to rows of the store, flat pairs `[2 M]`; after the others.
    pub within: &'a [i32],
}

/// Checks that an array has an entry for each request, or none at all.
///
/// # Errors
/// [`CpuError::Length`] where it has not.
pub(crate) fn check_each(
    what: &'static str,
    array: &[i32],
    num_requests: usize,
) -> Result<(), CpuError> {
    if array.is_empty() || array.len() == num_requests {
        return Ok(());
    }
    Err(CpuError::Length {
        what,
        given: array.len(),
        expected: num_requests,
    })
}

/// What a forward needs to know to keep up the entries of a drafter with features.
#[derive(Debug, Clone, Copy, Default)]
pub struct UpkeepArrays<'a> {
    /// Row of the store with the feature before each request's first row, `[Q]`; -1 = unknown, then that
    /// row's entry is not written; -2 = no row of the request gets one. Empty = unknown for all.
    pub request_feature: &'a [i32],
    /// Position of the first token of each request of which entries are kept, `[Q]`; rows before it get none.
    /// Empty = 0 for all.
    pub request_first: &'a [i32],
    /// Done before anything else.
    pub moves: FeatureMoves<'a>,
}

/// One level of drafts over all requests. `R` rows, `Q` requests.
#[derive(Debug, Clone, Copy, Default)]
pub struct DraftArrays<'a> {
    /// 1 = the first level of a step.
    pub level: i32,
    /// Token of each row `[R]`.
    pub row_token: &'a [i32],
    /// Its position `[R]`.
    pub row_position: &'a [i32],
    /// Its request, an index into this plan's `[R]`.
    pub row_request: &'a [i32],
    /// Its parent among all draft rows of the step; -1 on the first level `[R]`.
    pub row_parent: &'a [i32],
    /// Number of this plan's first row among all draft rows of the step.
    pub row_index: i32,
    /// Committed tokens of each request `[Q]`: the first-level row lies behind them.
    pub request_kv_len: &'a [i32],
    /// Row of the store with the feature of each request's last committed token `[Q]`; not read by a drafter
    /// without features.
    pub request_feature: &'a [i32],
    /// Position of the first committed token of each request that its rows see `[Q]`: the drafter lacks entries
    /// before it. Empty = 0 for all.
    pub request_first: &'a [i32],
    /// Start of each request's pages in `page_ids`, and the end of the last `[Q + 1]`.
    pub page_indptr: &'a [i32],
    /// Page tables of all requests, one after the other.
    pub page_ids: &'a [i32],
    /// Position of the first token of each request whose keys and values are made up before the rows `[Q]`.
    /// Empty, as the next two are, where nothing is made up; always for a drafter with features.
    pub request_fill_start: &'a [i32],
    /// Start of each request's tokens in `fill_token`, and the end of the last `[Q + 1]`.
    pub fill_indptr: &'a [i32],
    /// Those tokens, one behind the other. All committed ones that a row sees and that were never made up.
    pub fill_token: &'a [i32],
    /// Start of each row's tokens in `scored_token`, and the end of the last `[R + 1]`.
    pub scored_indptr: &'a [i32],
    /// Tokens whose log-probability is wanted.
    pub scored_token: &'a [i32],
    /// Slots to copy from, of the target's layers and the drafter's, before anything else `[M]`; no later
    /// call repeats them.
    pub kv_move_src: &'a [i32],
    /// Slots to copy to, in order `[M]`.
    pub kv_move_dst: &'a [i32],
    /// Done before anything else; not read by a drafter without features.
    pub moves: FeatureMoves<'a>,
}

/// A drafter's answers to the rows of a level.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answers {
    /// The likeliest tokens, likeliest first; -1 where there is none `[R, 8]`.
    pub ids: Vec<i32>,
    /// Their probabilities among all that the drafter can name `[R, 8]`.
    pub probabilities: Vec<f32>,
    /// Natural logarithms of the probabilities of the tokens asked for, as they were asked; minus infinity
    /// for a token that the drafter cannot name.
    pub scored: Vec<f32>,
}
