//! Whether a tenant's choices may run now, and on which worker.

mod admission;
mod affinity;
mod known;
mod order;
mod placer;
mod prefix;
mod room;
mod steering;
#[cfg(test)]
mod trace;

pub(super) use admission::Admission;
pub(crate) use admission::Room;
pub(crate) use order::{Order, Refusal};
pub(super) use placer::Placer;
pub(crate) use prefix::Prefix;
