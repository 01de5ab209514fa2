//! What the router counts and measures, under the names of one table.

mod calls;
mod collector;
mod compat;
mod drafting;
mod fleet;
mod labels;
mod table;

pub(crate) use calls::{Call, Calls, Report};
pub use collector::Metrics;
pub(crate) use collector::ModelMetrics;
pub use table::TABLE;
