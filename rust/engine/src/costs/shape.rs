//! What forwards cost beside their number of rows.

use super::size::ForwardSize;

/// Most rows of one tree of a timed forward.
const TREE_ROWS: usize = 64;

/// What the cost of forwards follows beside their number of rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CostShape {
    /// Cached tokens of each row when the forwards were timed, in trees of up to 64 rows.
    pub measured_tokens: usize,
    /// Milliseconds for each row and cached token that it reads; 0 when unknown.
    pub ms_per_key: f64,
    /// Milliseconds for each cached token, once for all rows of a tile; 0 when unknown.
    pub ms_per_read: f64,
    /// Rows of a request that read its cached tokens together.
    pub tile_rows: usize,
    /// Forwards of up to so many rows take as long as that of the next timed number, as a captured graph
    /// of that size runs; 0 where each row counts.
    pub stair_rows: usize,
}

impl CostShape {
    /// What reading the cache takes.
    pub(super) fn milliseconds(&self, size: ForwardSize) -> f64 {
        self.ms_per_key * size.kv_tokens as f64 + self.ms_per_read * size.kv_reads as f64
    }

    /// The forward of `rows` rows that was timed.
    pub(super) fn timed(&self, rows: usize) -> ForwardSize {
        let trees = (0..rows).step_by(TREE_ROWS).map(|first| {
            let rows = (rows - first).min(TREE_ROWS);
            ForwardSize::of_tree(self.measured_tokens, rows, self.tile_rows)
        });
        trees.sum()
    }
}

impl Default for CostShape {
    fn default() -> Self {
        Self {
            measured_tokens: 0,
            ms_per_key: 0.0,
            ms_per_read: 0.0,
            tile_rows: 1,
            stair_rows: 0,
        }
    }
}
