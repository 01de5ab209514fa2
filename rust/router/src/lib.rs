//! The router: gRPC and OpenAI HTTP for clients, one stream per worker.
//!
//! Both APIs turn a call into a `spectrie.v1.GenerateRequest` and run it by [`Generation::start`];
//! both turn a [`RequestError`] into their own words. [`run`] is the whole program.

pub mod access;
mod admin;
pub mod app;
pub mod config;
pub mod error;
mod failover;
mod fleet;
pub mod generation;
mod grpc;
pub mod http;
mod listen;
pub mod metrics;
pub mod state;
mod sync;
mod workers;

pub use access::ApiKeys;
pub use app::{Bound, Ending, Shutdown, run};
pub use config::RouterConfig;
pub use error::{ErrorKind, RequestError, RouterError};
pub use generation::{Caller, Generation, GenerationStream};
pub use metrics::Metrics;
pub use state::AppState;
