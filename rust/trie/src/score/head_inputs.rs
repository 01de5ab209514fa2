//! The inputs of a drafter's answers: their positions, and what they weigh at first.

/// The inputs of one candidate.
pub(crate) type HeadInputs = [f32; NUM_INPUTS];

pub(super) const NUM_INPUTS: usize = 10;

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

/// The weights before anything was learned: tokens that nobody else names are as likely as it says.
pub(crate) const HEAD_PRIOR: HeadInputs = {
    let mut weights = [0.0; NUM_INPUTS];
    weights[GIVEN] = 0.7;
    weights[ASKED_ABOUT] = 0.3;
    weights[SILENT] = -0.5;
    weights[LIKELY] = 0.8;
    weights[UNLIKELY] = 0.2;
    weights[UNLIKELY_SILENT] = 1.0;
    weights[AGREES] = 0.3;
    weights[ALONE] = 0.3;
    weights
};
