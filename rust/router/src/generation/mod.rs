//! One request from its first check to its last event, whichever API it came from.

mod choice;
mod convert;
mod live;
mod logprobs;
mod prompt;
mod refusal;
mod resolve;
mod run;
mod service;
mod stream;
mod text;
mod wait;

pub(crate) use refusal::refused;
pub use service::{Caller, Generation};
pub use stream::GenerationStream;
