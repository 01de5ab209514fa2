//! Which drafts a step sends, and what they gained.

mod asking;
mod backoff;
mod bid;
mod budget;
mod calibration;
mod cost;
mod drafting;
mod forward_size;
mod gain;
mod grammar_drafts;
mod mean_ms;
mod speculator;
mod step;
mod tiers;
mod tree;

pub use cost::ContextCost;
pub(crate) use cost::CostCurve;
pub(crate) use drafting::Drafting;
pub(crate) use forward_size::ForwardSize;
pub(crate) use gain::Trial;
pub(crate) use speculator::{EndedStep, Speculator};
pub(crate) use step::Candidate;
pub(crate) use tree::SentTree;
