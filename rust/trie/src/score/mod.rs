//! The probability of each candidate, learned online.

pub(crate) mod calibration;
pub(crate) mod candidate;
pub(crate) mod evidence;
pub(crate) mod features;
pub(crate) mod head;
mod head_cell;
pub(crate) mod head_gains;
mod head_inputs;

pub(crate) mod head_prior;
pub(crate) mod inputs;
pub(crate) mod mixer;
pub(crate) mod scorer;
pub(crate) mod weights;
