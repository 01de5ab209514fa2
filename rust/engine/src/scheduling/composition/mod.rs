//! What a step computes, and what of it is held back for the sake of others.

mod compose;
mod pacing;
mod prepared;
mod step;

pub(crate) use compose::{Composer, Composition};
pub(crate) use pacing::Pacing;
pub(super) use prepared::{Prepared, candidates};
