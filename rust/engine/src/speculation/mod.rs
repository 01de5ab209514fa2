//! Which drafts a step sends, and what they gained.

pub(crate) mod backoff;
pub(crate) mod bid;
pub(crate) mod budget;
pub(crate) mod calibration;
pub(crate) mod cost;
pub(crate) mod decisions;
pub(crate) mod drafting;
pub(crate) mod forward_size;
pub(crate) mod grammar_drafts;
pub(crate) mod step;
pub(crate) mod tiers;
pub(crate) mod tree;
pub(crate) mod trial;

pub use cost::ContextCost;
