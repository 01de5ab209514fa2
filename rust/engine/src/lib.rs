//! Scheduler, KV pages, draft budget, sampling and verification as a pure state machine.
//!
//! An [`Engine`] turns [`Request`]s into [`Plan`]s, each the rows of one forward, and the model's
//! answers to a plan into tokens. It computes nothing itself and decides nothing by a clock: the time
//! is passed in. What a request emits depends on its own tokens, its seed and the logits alone,
//! never on its company, on chunk sizes, on preemption or on what was drafted.

#[cfg(test)]
extern crate self as spectrie_engine;

mod admission;
#[cfg(test)]
mod audit;
mod batch;
mod budget;
mod choices;
mod chores;
mod config;
mod cost;
mod drafting;
mod engine;
mod error;
mod fairness;
mod gain;
mod grammar_drafts;
mod helper;
mod interest;
mod lessons;
mod memory;
mod offers;
mod order;
mod output;
mod pages;
mod plan;
mod prefix;
mod queue;
mod request;
mod results;
mod sampled_rows;
mod scheduler;
mod sequence;
mod sharing;
mod tiers;
mod tree;
mod verify;

pub use config::EngineConfig;
pub use cost::ContextCost;
pub use engine::Engine;
pub use error::EngineError;
pub use output::{CalibrationBin, Finish, Load, NUM_BINS, RequestOutput, RequestStats};
pub use plan::{Plan, RowKind};
pub use request::Request;
pub use results::{StepResults, TopTokens, Verdicts};
