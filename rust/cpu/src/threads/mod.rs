//! The threads of a forward: a team, its members' barrier and shares of work, and how they wait.

mod barrier;
#[cfg(all(test, loom))]
mod interleavings;
mod member;
mod park;
mod share;
mod sync;
mod team;

pub use member::Member;
pub(crate) use share::share_out;
pub use team::Team;
