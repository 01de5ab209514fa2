//! One request from its first check to its last event, whichever API it came from.

mod attempts;
mod blocking;
mod choice;
mod live;
mod reader;
mod refusal;
mod resolve;
mod run;
mod service;
mod shared;
mod stream;
mod text;
mod wait;
mod waiting;

#[cfg(test)]
mod simulation;

pub(crate) use attempts::{Resume, Resumed};
pub(crate) use refusal::refused;
pub use service::{Caller, Generation};
pub use stream::GenerationStream;
