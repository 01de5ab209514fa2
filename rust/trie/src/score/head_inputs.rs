//! The inputs of a drafter's answers: their positions.

/// The inputs of one candidate.
pub(crate) type HeadInputs = [f32; NUM_INPUTS];

pub(crate) const NUM_INPUTS: usize = 10;

/// Sets of weights: one that always counts, and one for answers after the root, one and two tokens below
/// it, and deeper.
pub(crate) const HEAD_SETS: usize = 4;

/// Always one.
pub(super) const ONE: usize = 0;
/// Log-odds of a token among its likeliest.
pub(super) const GIVEN: usize = 1;
/// Log-odds of a token that it was asked about.
pub(super) const ASKED_ABOUT: usize = 2;
/// Whether it says nothing of a candidate.
pub(super) const SILENT: usize = 3;
/// What the others say: log-odds above 0; below 0 where it says something, and where it does not.
pub(super) const LIKELY: usize = 4;
pub(super) const UNLIKELY: usize = 5;
pub(super) const UNLIKELY_SILENT: usize = 6;
/// Logarithm of the level where it says something.
pub(super) const LEVEL: usize = 7;
/// Whether its likeliest token is the newest continuation in the request's own text.
pub(super) const AGREES: usize = 8;
/// Log-odds of a token that nobody else names.
pub(super) const ALONE: usize = 9;

/// The inputs whose weights tell how far a drafter is believed; zeros in place of the others.
pub(crate) fn of_belief(inputs: &HeadInputs) -> HeadInputs {
    let mut kept = [0.0; NUM_INPUTS];
    for index in [ONE, GIVEN, ALONE] {
        kept[index] = inputs[index];
    }
    kept
}
