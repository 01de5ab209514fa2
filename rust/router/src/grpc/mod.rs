//! The public gRPC API, and what every gRPC listener shares: deadlines, keepalive, reflection.

mod guard;
mod inference;
mod server;

pub(crate) use guard::Deadline;
pub(crate) use server::{configured, reflection, serve, serve_workers};
