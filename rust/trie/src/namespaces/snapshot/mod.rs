//! Shared memory on disk: saved while it is used, read back at the next start.

mod file;
#[cfg(test)]
mod fuzz;
pub(crate) mod info;
pub(crate) mod load;
pub(crate) mod place;
pub(crate) mod save;
mod segment;
