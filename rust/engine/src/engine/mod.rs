//! The handle of an engine, what arrives for it, and its operators' calls.

mod arrivals;
mod drafting;
mod handle;
mod inbox;
mod operators;
mod results;

pub use handle::Engine;
