//! How much a forward computes.

use std::iter::Sum;

/// How much a forward computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ForwardSize {
    pub(crate) rows: usize,
    /// Cached tokens that its rows read, summed over rows.
    pub(crate) kv_tokens: usize,
}

impl ForwardSize {
    /// This forward with `rows` prompt rows more, after `kv_len` cached tokens.
    pub(crate) fn with_chunk(self, kv_len: usize, rows: usize) -> Self {
        Self {
            rows: self.rows + rows,
            kv_tokens: self.kv_tokens + rows * (kv_len + rows / 2),
        }
    }
}

impl Sum for ForwardSize {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Self::default(), |sum, one| Self {
            rows: sum.rows + one.rows,
            kv_tokens: sum.kv_tokens + one.kv_tokens,
        })
    }
}
