//! What the drafters of a step are asked: whose turn it is, the levels, and what requests wish.

mod drafters;
mod next_turn;
#[expect(
    clippy::module_inception,
    reason = "the owner of the room is named by it"
)]
mod questions;
mod turns;
mod wishes;

pub(crate) use questions::Questions;
pub(crate) use wishes::Reach;
