//! Whether a tenant's choices may run now, and on which worker.

mod admission;
mod affinity;
pub(crate) mod ejection;
mod health;
mod known;
mod order;
mod placer;
mod prefix;
mod room;
mod steering;
#[cfg(test)]
mod trace;

pub(super) use admission::Admission;
pub(super) use health::Health;
pub(crate) use order::{Order, Refusal};
pub(super) use placer::Placer;
pub(crate) use prefix::Prefix;
