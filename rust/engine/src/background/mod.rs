//! Work that the next plan does not need, and the thread that may do it.

mod feedback;
mod queue;
mod thread;
mod upkeep;

pub(crate) use feedback::{Feedback, Share};
pub(crate) use queue::{Chore, ChoreQueue, Learner};
pub(crate) use thread::BackgroundThread;
pub(crate) use upkeep::Upkeep;
