//! Admission and fair shares alone, and the whole of scheduling beside a naive model of it.

mod admission;
mod backfill;
mod dice;
mod fairness;
mod pacing;
mod pacing_limits;
mod root_alone;
mod traffic;
mod world;
