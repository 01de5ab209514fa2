//! Drafters that the runner calls, and whether their answers are worth their time.

#[expect(
    clippy::module_inception,
    reason = "the owner of the room is named by it"
)]
mod heads;
mod info;
mod level_costs;
mod levels;
mod probing;

pub(super) use heads::{Heads, Why, Wish};
pub use info::DrafterInfo;
pub(super) use levels::{LevelRow, LevelRows, Levels, likeliest};
