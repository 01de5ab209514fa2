//! The inputs of a drafter's answers: their positions.

use crate::score::inputs::{LATELY_SETS, OWN_SETS, Situation};

/// The inputs of one candidate.
pub(crate) type HeadInputs = [f32; NUM_INPUTS];

pub(crate) const NUM_INPUTS: usize = 14;

/// Sets of weights: one that always counts, then those picked by the level, and by own match and the hits of the request
/// lately, as the weights below are.
pub(crate) const HEAD_SETS: usize = 1 + LEVEL_SETS + OWN_SETS + LATELY_SETS;

/// Answers after the root, one and two tokens below it, and deeper.
const LEVEL_SETS: usize = 3;

/// Which sets count at a node that was answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadSets([usize; 4]);

impl HeadSets {
    /// Levels count from 1; `at` says which weights the others had.
    pub(crate) fn new(level: u16, at: Situation) -> Self {
        let level = 1 + usize::from(level > 1) + usize::from(level > 3);
        let own = 1 + LEVEL_SETS + usize::from(at.own);
        let lately = 1 + LEVEL_SETS + OWN_SETS + usize::from(at.lately);
        Self([0, level, own, lately])
    }

    pub(super) fn all(self) -> [usize; 4] {
        self.0
    }

    /// Those that a request learns, whatever its text: few answers tell how far a drafter is believed.
    pub(super) fn of_belief(&self) -> &[usize] {
        &self.0[..2]
    }
}

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
/// Log-odds of what the others leave for tokens that they do not name, where it alone names one.
pub(super) const LEFT: usize = 10;
/// Log-odds of what its likeliest tokens leave for all others, where it says nothing.
pub(super) const LEFT_SILENT: usize = 11;
/// Log-odds of what the others give to all other tokens.
pub(super) const RIVALS: usize = 12;
/// Log-odds of the likeliest other token of its own.
pub(super) const RIVAL_GIVEN: usize = 13;

/// The inputs whose weights tell how far a drafter is believed; zeros in place of the others.
pub(crate) fn of_belief(inputs: &HeadInputs) -> HeadInputs {
    let mut kept = [0.0; NUM_INPUTS];
    for index in [ONE, GIVEN, ALONE] {
        kept[index] = inputs[index];
    }
    kept
}
