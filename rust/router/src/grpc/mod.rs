//! The public gRPC API: inference, health, reflection.

mod guard;
mod inference;
mod server;

pub(crate) use server::{serve, serve_workers};
