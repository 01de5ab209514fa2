//! What a forward computes while it runs, and how its results are read.

#[expect(
    clippy::module_inception,
    reason = "the owner of the room is named by it"
)]
mod flight;
mod open_plan;

pub(crate) use flight::Flight;
pub(crate) use open_plan::{EarlyPlan, OpenPlan, Part, Work};
