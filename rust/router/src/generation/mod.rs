//! One request from its first check to its last event, whichever API it came from.

mod blocking;
mod choice;
mod live;
mod reader;
mod refusal;
mod resolve;
mod run;
mod service;
mod stream;
mod text;
mod wait;
mod waiting;

pub(crate) use refusal::refused;
pub use service::{Caller, Generation};
pub use stream::GenerationStream;
