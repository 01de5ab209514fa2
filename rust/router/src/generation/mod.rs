//! One request from its first check to its last event, whichever API it came from.

mod attempts;
mod blocking;
mod choice;
mod live;
mod reader;
mod refusal;
mod resolve;
mod returning;
mod run;
mod service;
mod shared;
mod stream;
mod text;
mod waiting;

#[cfg(test)]
mod simulation;

pub(crate) use refusal::refused;
pub(crate) use returning::{Resume, Resumed};
pub use service::{Caller, Generation};
pub use stream::GenerationStream;
