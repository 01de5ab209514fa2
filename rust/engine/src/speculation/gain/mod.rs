//! Whether drafts were worth it.

mod arm;
mod decisions;
mod evidence;
mod rest;
mod trial;

pub(super) use evidence::{Gain, Outcome};
pub(crate) use trial::Trial;
