//! Forwards and their parts against plain double precision, the independence of their rows, and what is refused. One
//! binary: each would compile a decoder of its own for every format.
#![allow(clippy::expect_used, unreachable_pub)] // test code fails by panicking; helpers are shared

mod attention;
mod batch;
mod decoder;
mod huge_pages;
mod linear;
mod rows;
mod small;
#[path = "../support/mod.rs"]
mod support;
mod top_k;
