//! Every option, once: name, type, default, range, unit, help and where it applies.
//!
//! `EngineConfig` and `SamplingParameters`, the command line, environment, configuration file, the
//! keywords of `spectrie.LLM` and `docs/options.md` follow from these tables.

mod check;
mod engine;
mod host;
mod kind;
mod macros;
mod model;
mod nearest;
mod request;
mod row;
mod server;
mod value;
mod violation;

pub use check::check;
pub use engine::EngineConfig;
pub use host::{CORPUS_MEMORY_BYTES, HOST, MEMORY_BYTES};
pub use kind::{Kind, Range};
pub use model::MODEL;
pub use nearest::nearest;
pub use request::{MIN_TEMPERATURE, REQUEST, SamplingParameters};
pub use row::{Group, OptionRow};
pub use server::{
    CLIENT_STALL_TIMEOUT_S, GRPC_ADDRESS, HTTP_ADDRESS, OTLP_SAMPLE, REQUEST_TIMEOUT_S,
    RESUME_WINDOW_S, SERVER, WORKER_STALL_TIMEOUT_S,
};
pub use value::{OptionValue, Value};
pub use violation::{Violation, Violations};

/// A table and its name.
pub type Table = (&'static str, &'static [OptionRow]);

/// Every table of options that a process is started with, in the order in which they are shown.
#[must_use]
pub fn tables() -> [Table; 4] {
    [
        ("server", SERVER),
        ("model", MODEL),
        ("engine", EngineConfig::rows()),
        ("host", HOST),
    ]
}

#[cfg(test)]
mod tests;
