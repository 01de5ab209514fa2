//! The threads of a forward: a team, its members' barrier and shares of work, and how they wait.

mod barrier;
mod member;
mod park;
mod share;
mod team;

pub use member::Member;
pub(crate) use share::share_out;
pub use team::Team;
