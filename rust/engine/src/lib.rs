//! Scheduling, KV pages, drafts and verification as a state machine.
//!
//! An [`Engine`] turns [`Request`]s into [`Plan`]s, each the rows of one forward, and the model's
//! answers to a plan into tokens. It never calls the model. Callers pass in the time of each step; the
//! engine reads its own [`Clock`] for durations only: how long a request lay in the inbox, and how long
//! plans, commits, drafting and learning took.
//!
//! Which tokens a request emits depends on its own tokens, its options, its seed and the logits alone:
//! never on the other requests of the batch, on chunk sizes, on preemption, on time or on what was
//! drafted. `DESIGN.md` explains how.

#[cfg(test)]
extern crate self as spectrie_engine;

mod background;
mod cache;
mod clock;
mod config;
mod costs;
mod engine;
mod error;
mod forward;
mod output;
mod plan;
mod request;
mod request_key;
mod scheduling;
mod sequence;
mod speculation;

pub use cache::LEFT_OUT;
pub use clock::{Clock, SystemClock};
pub use config::EngineConfig;
pub use costs::CostShape;
pub use engine::Engine;
pub use error::EngineError;
pub use forward::{BANNED, DraftAnswers, LogitRows, StepResults, TopTokens, Verdicts};
pub use output::{
    CalibrationBin, DrafterLoad, Finish, Load, NUM_BINS, NetGain, RequestOutput, RequestStats,
};
pub use plan::packing::{DeviceShape, PackedStep, TileRows};
pub use plan::{DraftPlan, Plan, RowKind};
pub use request::{Request, StopFinder};
pub use speculation::DrafterInfo;
