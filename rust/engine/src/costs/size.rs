//! How much a forward computes.

use std::iter::Sum;
use std::ops::Add;

/// How much a forward computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ForwardSize {
    pub(crate) rows: usize,
    /// Cached tokens that its rows read, summed over rows.
    pub(crate) kv_tokens: usize,
    /// The same, summed over tiles: neighbouring rows of a request that read them together.
    pub(crate) kv_reads: usize,
}

impl ForwardSize {
    /// So many rows of a tree after `kv_len` cached tokens, in tiles of `tile_rows`.
    pub(crate) fn of_tree(kv_len: usize, rows: usize, tile_rows: usize) -> Self {
        Self {
            rows,
            kv_tokens: rows * kv_len,
            kv_reads: rows.div_ceil(tile_rows) * kv_len,
        }
    }

    /// So many rows of a prompt after `kv_len` cached tokens, in tiles of `tile_rows`: they read each
    /// other too, half of them on average.
    pub(crate) fn of_chunk(kv_len: usize, rows: usize, tile_rows: usize) -> Self {
        Self::of_tree(kv_len + rows / 2, rows, tile_rows)
    }
}

impl Add for ForwardSize {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            rows: self.rows + other.rows,
            kv_tokens: self.kv_tokens + other.kv_tokens,
            kv_reads: self.kv_reads + other.kv_reads,
        }
    }
}

impl Sum for ForwardSize {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Self::default(), Self::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_tile_read_their_cached_tokens_once() {
        for (rows, tiles) in [(1, 1), (4, 1), (5, 2), (8, 2), (9, 3)] {
            let tree = ForwardSize::of_tree(100, rows, 4);
            assert_eq!(
                (tree.rows, tree.kv_tokens, tree.kv_reads),
                (rows, 100 * rows, 100 * tiles)
            );
            let apart = ForwardSize::of_tree(100, rows, 1);
            assert_eq!(apart.kv_reads, apart.kv_tokens);
        }
        let both = ForwardSize::of_tree(100, 2, 4) + ForwardSize::of_tree(10, 2, 4);
        assert_eq!(both.kv_reads, 110, "requests share nothing");
        assert_eq!(ForwardSize::of_chunk(100, 20, 16).kv_reads, 2 * 110);
    }
}
