//! The router on real sockets: one program, because linking one is slow.
#![allow(clippy::unwrap_used, clippy::expect_used)] // Helpers of tests fail by panicking.

mod admin;
mod corpora;
mod failover;
mod generate;
mod keys;
mod logprobs;
mod options;
mod refusals;
mod services;
#[path = "../support/mod.rs"]
mod support;
mod tenants;
mod unread;
mod workers;
