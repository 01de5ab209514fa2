//! Regenerates every checked-in generated Rust file.
fn main() {}
