//! What follows when a worker's part in a choice ends early: who is to blame, where the choice goes
//! next, and which requests are refused for a while.
//!
//! Decisions only: no sockets, no clock (time is passed in), no locks.

mod blame;
mod convicts;
mod placement;

pub(crate) use blame::{Blame, End, Verdict};
pub(crate) use convicts::{Convicts, Digest};
pub(crate) use placement::{Candidate, Need, Queue, choose};
