//! A token that may be drawn.

use std::cmp::Ordering;

/// A token and its scaled logit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) score: f32,
    pub(crate) token: u32,
}

impl Candidate {
    /// Likeliest first, ties by the lowest token id. Scores are never NaN here.
    pub(crate) fn order(self, other: Self) -> Ordering {
        other
            .score
            .total_cmp(&self.score)
            .then(self.token.cmp(&other.token))
    }
}
