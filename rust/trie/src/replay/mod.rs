//! Replays of requests whose output is known.
//!
//! Teacher-forced: each step drafts, accepts the longest drafted path that the recorded output
//! takes, and emits one token more, as the model would have. The first step drafts from the prompt
//! alone; a step that accepts the rest of the output ends the request.

mod budget;
mod config;
mod report;
mod request;
mod run;
mod tally;

pub use config::{MemoryMode, ReplayConfig};
pub use report::{Bin, ReplayReport};
pub use request::{ReplayRequest, TopEntries};
pub use run::Replay;
