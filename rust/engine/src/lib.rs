//! Scheduler, KV pages, draft budget, sampling and verification as a pure state machine.
//!
//! An [`Engine`] turns [`Request`]s into [`Plan`]s, each the rows of one forward, and the model's
//! answers to a plan into tokens. It computes nothing itself and decides nothing by a clock: the time
//! is passed in. What a request emits depends on its own tokens, its seed and the logits alone,
//! never on its company, on chunk sizes, on preemption or on what was drafted.

#[cfg(test)]
extern crate self as spectrie_engine;

mod background;
mod cache;
mod config;
mod engine;
mod error;
mod forward;
mod operators;
mod output;
mod plan;
mod request;
mod request_key;
mod scheduling;
mod sequence;
mod speculation;

pub use config::EngineConfig;
pub use engine::Engine;
pub use error::EngineError;
pub use forward::{StepResults, TopTokens, Verdicts};
pub use output::{CalibrationBin, Finish, Load, NUM_BINS, RequestOutput, RequestStats};
pub use plan::{Plan, RowKind};
pub use request::Request;
pub use speculation::ContextCost;
