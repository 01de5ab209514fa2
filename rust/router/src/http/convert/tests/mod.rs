//! Bodies that are converted, and bodies that are refused.

mod bodies;
mod properties;
mod refusals;
