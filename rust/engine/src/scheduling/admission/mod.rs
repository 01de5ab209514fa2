//! Who waits, who is admitted, and who goes back to wait.

#[expect(clippy::module_inception, reason = "it is what the room is about")]
mod admission;
mod following;
mod queue;
mod room;
mod round;
mod turns;

pub(super) use admission::Admission;
pub(super) use following::Following;
