//! Whether drafts were worth it.

mod arm;
mod calibration;
mod decisions;
mod evidence;
mod rest;
mod trial;

pub(super) use arm::Arm;
pub(super) use calibration::Calibration;
pub(super) use evidence::{Gain, Outcome};
pub(crate) use trial::Trial;
