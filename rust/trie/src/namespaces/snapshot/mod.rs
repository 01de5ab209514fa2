//! Shared memory on disk: saved while it is used, read back at the next start.
//!
//! A save writes what is new to *parts*, and a *manifest* that says which runs of cells in which
//! parts make up each block.

mod compaction;
mod erase;
mod folder;
pub(crate) mod info;
pub(crate) mod load;
mod manifest;
mod part;
mod restore;
mod run;
mod save;
mod saved;
mod single;
pub(crate) mod snapshots;
#[cfg(test)]
mod tests;
pub(crate) mod turns;
