//! One request from its first check to its last event, whichever API it came from.

mod choice;
mod convert;
mod live;
mod logprobs;
mod prompt;
mod resolve;
mod run;
mod service;
mod text;
mod wait;

pub(crate) use service::refused;
pub use service::{Caller, Generation, GenerationStream};
