//! What drafting would have done for requests whose output is known.
//!
//! Teacher-forced: each step drafts, accepts the longest drafted path that the true output takes,
//! emits one token more, as the model would have, and goes on from there. The first step drafts
//! from the prompt alone; a step that accepts all that is left ends the request.

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
