//! Whether a tenant's choices may run now, and on which worker.

mod admission;
mod steering;

pub(super) use admission::Admission;
pub(super) use steering::preferred;
