//! Snapshots of versions 1 and 2, each a single file. They are read, not written.

pub(super) mod file;
mod segment;
