//! The attempts of a choice: where it is, what each did, how the next one begins.
//!
//! A stream that ends, or is cut, leaves a [`Record`](crate::failover::Record). To go on with it is a
//! failover: the tokens of the record are replayed into a fresh answer, its client gets the events
//! behind those that it has, and each unfinished choice waits for a worker as one that lost its own.

mod claim;
mod claimed;
mod first;
mod go_on;
mod keeping;
mod leave;
mod mark;
mod marks;
mod operators;
mod place;
mod replay;
mod resume;
mod share;
mod tally;

pub(crate) use go_on::{Resume, Resumed};
pub(super) use keeping::{Keeping, Kept};
pub(super) use mark::Mark;
pub(super) use place::Place;
pub(super) use tally::Tally;
