//! The engine from outside: one program, because linking one for each file is slow.
#![allow(clippy::unwrap_used, clippy::expect_used)] // Helpers of tests fail by panicking.

#[path = "../support/mod.rs"]
mod support;

mod adaptive;
mod backfill;
mod clock;
mod distribution;
mod draft_models;
mod draft_threads;
mod drafters;
mod early_evidence;
mod early_plans;
mod early_start;
mod exactness;
mod grammar;
mod head_modes;
mod head_sleep;
mod left_out;
mod mixed_traffic;
mod operators;
mod overlap;
mod prefix;
mod priority;
mod sampling;
mod scheduling;
mod several_drafters;
mod speculation;
mod stops;
mod turns;
mod waiting;
