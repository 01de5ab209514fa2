//! The public gRPC API, and what every gRPC listener shares: the gate, bounds, deadlines, keepalive,
//! reflection.

mod bounded;
mod gate;
mod guard;
mod inference;
mod server;

pub(crate) use gate::Gate;
pub(crate) use guard::{Budgets, Deadline, GuardLayer};
pub(crate) use server::{configured, reflection, serve, serve_workers};
