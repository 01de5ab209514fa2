//! What one forward computes, and how a device reads it.

mod draft_plan;
pub(crate) mod packing;
mod rows;

pub use draft_plan::DraftPlan;
pub use rows::{Plan, RowKind};
pub(crate) use rows::{Row, drawn_token};
