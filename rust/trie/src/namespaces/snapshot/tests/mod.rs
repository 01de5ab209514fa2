//! Snapshots that are damaged, cut short by a crash, and written for long.

mod crash;
mod fuzz;
mod single_fuzz;
mod support;
mod writes;
