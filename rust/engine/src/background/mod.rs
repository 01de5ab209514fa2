//! Work that the next plan does not need, and the thread that may do it.

pub(crate) mod feedback;
pub(crate) mod queue;
pub(crate) mod thread;
