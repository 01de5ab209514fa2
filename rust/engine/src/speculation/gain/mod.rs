//! Whether drafts were worth it.

mod decisions;
mod trial;

pub(super) use decisions::{Decisions, Step};
pub(crate) use trial::Trial;
pub(super) use trial::Trials;
