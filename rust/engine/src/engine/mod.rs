//! The handle of an engine, what arrives for it, and its operators' calls.

mod handle;
mod inbox;
mod operators;

pub use handle::Engine;
