//! The attempts of a choice: where it is, what each did, how the next one begins.

mod place;
mod resume;
mod tally;

pub(super) use place::{Place, Waiting};
pub(super) use tally::Tally;
