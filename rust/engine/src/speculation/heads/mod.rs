//! Drafters that the runner calls, and whether their answers are worth their time.

mod chosen;
mod drafters;
mod fills;
#[expect(
    clippy::module_inception,
    reason = "the owner of the room is named by it"
)]
mod heads;
mod info;
mod later;
mod level_costs;
mod levels;
mod pace;
mod probing;
mod profit;
mod promise;
#[cfg(test)]
mod tests;
mod wish;

pub(super) use chosen::{Chosen, Why};
pub(super) use drafters::Drafters;
pub(super) use heads::Heads;
pub use info::DrafterInfo;
pub(crate) use levels::LevelRow;
pub(super) use levels::{LevelRows, Levels, likeliest};
pub(super) use probing::Probed;
pub(super) use wish::{Missing, Wish};
