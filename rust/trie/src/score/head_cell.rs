//! What was counted of a drafter in one place.

/// Most that a namespace's evidence weighs in a new request.
const MOST_INHERITED: f32 = 3.0;

/// Evidence of one place.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Cell {
    /// Surplus beyond that which others expected.
    pub(super) added: f32,
    /// What others left, or what of that is usually added.
    pub(super) left: f32,
}

impl Cell {
    /// Adds evidence; what is learned never falls below nothing, so that a drafter that was wrong for long shows soon
    /// when it is right.
    pub(super) fn note(&mut self, keep: f32, added: f32, left: f32, least: f32) {
        self.added = (keep * self.added + added).max(least);
        self.left = keep * self.left + left;
    }

    /// What was found, starting from `prior` of that weight.
    pub(super) fn ratio(self, prior: f32, weight: f32) -> f32 {
        (self.added + prior * weight) / (self.left + weight)
    }

    /// The same, weighing no more than a new request takes over.
    pub(super) fn scaled(self) -> Self {
        let scale = (MOST_INHERITED / self.left.max(MOST_INHERITED)).min(1.0);
        Self {
            added: self.added * scale,
            left: self.left * scale,
        }
    }
}
