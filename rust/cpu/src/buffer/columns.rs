//! Which columns of a row one part of a divided decoder computes.

/// Neighbouring columns of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Columns {
    /// The first one.
    pub first: usize,
    /// How many.
    pub count: usize,
    /// Columns of the whole row.
    pub total: usize,
}

impl Columns {
    /// All columns of a row.
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
