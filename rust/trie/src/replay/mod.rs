//! Replays of requests whose output is known.
//!
//! Teacher-forced: each step drafts, accepts the longest drafted path that the recorded output
//! takes, and emits one token more, as the model would have. The first step drafts from the prompt
//! alone; a step that accepts the rest of the output ends the request.
//!
//! Recorded answers of a head are asked for as the engine asks the head, level by level, by a rule of
//! their own. They are known along the recorded output alone.

mod asking;
mod budget;
mod checks;
mod config;
mod head_answers;
mod report;
mod request;
mod run;
mod tally;

pub use asking::{AskRule, HeadMode};
pub use config::{MemoryMode, ReplayConfig};
pub use head_answers::{HeadAnswers, HeadEntry};
pub use report::{Bin, ReplayReport};
pub use request::{ReplayRequest, TopEntries};
pub use run::Replay;
