//! Which columns of a row one part of a divided decoder computes.

/// A range of columns of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Columns {
    /// First column.
    pub first: usize,
    /// Number of columns.
    pub count: usize,
    /// Number of columns of the whole row.
    pub total: usize,
}

impl Columns {
    /// All columns of a row of `total`.
    pub fn all(total: usize) -> Self {
        Self {
            first: 0,
            count: total,
            total,
        }
    }

    /// Whether there are any and all lie in the row.
    pub(crate) fn fit(self) -> bool {
        self.count > 0 && self.first + self.count <= self.total
    }
}
