//! Scheduler, KV pages, draft budget, sampling and verification as a pure state machine.
//!
//! An [`Engine`] turns [`Request`]s into [`Plan`]s, each the rows of one forward, and the model's
//! answers to a plan into tokens. It computes nothing itself and reads no clock: the time is passed
//! in. What a request emits depends on its own tokens, its seed and the logits alone, never on its
//! company, on chunk sizes, on preemption or on what was drafted.

mod batch;
mod budget;
mod config;
mod cost;
mod drafting;
mod engine;
mod error;
mod gain;
mod memory;
pub mod noise;
mod offers;
mod output;
mod pages;
mod plan;
mod request;
mod results;
mod sampler;
mod scheduler;
mod sequence;
mod survivors;
mod tree;
mod verify;

pub use config::{EngineConfig, MAX_DRAFT_TOKENS, Recycle, SpeculationMode};
pub use engine::Engine;
pub use error::EngineError;
pub use output::{
    CalibrationBin, Finish, FinishKind, Load, NUM_BINS, NUM_SOURCES, RequestOutput, RequestStats,
};
pub use plan::{Plan, RowKind};
pub use request::{MIN_TEMPERATURE, Request, SamplingParameters};
pub use results::{StepResults, TopTokens, Verdicts};
