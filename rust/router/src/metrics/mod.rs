//! What the router counts and measures, under the names of one table.

mod calls;
mod circuits;
mod collector;
mod compat;
mod drafters;
mod drafting;
mod facts;
mod fleet;
mod labels;
mod otlp;
mod step_ages;
mod table;
mod tallies;

pub(crate) use calls::{AttemptName, Call, Calls, Report};
pub use collector::Metrics;
pub(crate) use collector::ModelMetrics;
pub(crate) use otlp::{Endpoint, Exporter, Sending};
pub use table::TABLE;
