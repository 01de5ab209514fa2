//! The router on real sockets: one program, because linking one is slow.

mod generate;
mod refusals;
mod services;
#[path = "../support/mod.rs"]
mod support;
mod workers;
