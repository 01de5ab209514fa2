//! OpenAI HTTP, probes and metrics.
//!
//! A request body is read (`body`), converted field by field (`convert`), run by the core
//! (`answer::events`) and answered whole or as server-sent events (`generate`, `answer`). Every
//! error is in OpenAI's shape (`error`).

mod answer;
mod body;
mod convert;
mod error;
mod error_map;
mod fallback;
mod generate;
mod hosts;
mod layers;
mod models;
mod probes;
mod routes;
mod server;
mod unread;
mod unstalled;

pub(crate) use routes::{serve, serve_probes};
