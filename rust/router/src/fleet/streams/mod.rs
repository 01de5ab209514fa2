//! Records of running streams: a stream outlives its router.
//!
//! A stream says what came of it to a table in memory ([`Sharing`]). [`tend`] writes that to Redis, a
//! little later, and renews the lease that all records of this router share: the key of its life. Another
//! router takes a record whose owner let it go, or lives no more ([`TakenOver`]).

mod commands;
mod sharing;
mod take;
mod tend;
#[cfg(test)]
mod tests;
mod unwritten;

pub(crate) use sharing::Sharing;
pub(crate) use take::{TakenOver, Taking};

pub(super) use tend::{beat, end_life, tend, verify};
