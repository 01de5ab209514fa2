//! Streams whose clients are gone: what is kept of them, and how they go on.
//!
//! A stream that ends, or is cut, leaves a [`Record`](crate::failover::Record). To resume it is a
//! failover: the tokens of the record are replayed into a fresh answer, its client gets the events
//! behind those that it has, and each unfinished choice waits for a worker as one that lost its own.

mod keeping;
mod leave;
mod operators;
mod replay;
mod resume;

pub(super) use keeping::{Keeping, Kept};
pub(crate) use resume::{Resume, Resumed};
