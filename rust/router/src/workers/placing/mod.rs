//! Whether a tenant's choices may run now, and on which worker.

mod admission;
mod order;
mod steering;

pub(super) use admission::Admission;
pub(crate) use order::{Order, Refusal};
pub(super) use steering::preferred;
