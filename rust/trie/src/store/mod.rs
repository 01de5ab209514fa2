//! Text in arenas and files: how it is linked, published to readers and written to disk.

pub(crate) mod atomic_file;
pub(crate) mod chains;
pub(crate) mod segment;
pub(crate) mod sync;
