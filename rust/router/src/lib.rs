//! The router: gRPC and OpenAI HTTP in front, workers behind.
//!
//! Both APIs turn a call into a `spectrie.v1.GenerateRequest` and run it by [`Generation::start`];
//! both turn a [`RequestError`] into their own words.

pub mod app;
pub mod auth;
pub mod config;
pub mod error;
pub mod generation;
pub mod http;
pub mod metrics;

pub use app::AppState;
pub use auth::ApiKeys;
pub use config::RouterConfig;
pub use error::{ErrorKind, RequestError, RouterError};
pub use generation::{Caller, Generation, GenerationStream};
pub use metrics::Metrics;
