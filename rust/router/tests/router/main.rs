//! The router on real sockets: one program, because linking one is slow.
#![allow(clippy::unwrap_used, clippy::expect_used)] // Helpers of tests fail by panicking.

mod abort;
mod admin;
mod affinity;
mod attacks;
mod calls;
mod corpora;
mod crowd;
mod drain;
mod ejection;
mod failover;
mod fleet;
mod gate;
mod generate;
mod keys;
mod left_bodies;
mod logprobs;
mod options;
mod public;
mod refusals;
mod resume;
mod resume_http;
mod services;
#[path = "../support/mod.rs"]
mod support;
mod tenants;
mod tls;
mod traces;
mod unread;
mod workers;
