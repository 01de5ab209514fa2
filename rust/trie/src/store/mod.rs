//! Text in arenas and files: how it is linked, published to readers and written to disk.

pub(crate) mod atomic_file;
pub(crate) mod chains;
pub(crate) mod extent;
pub(crate) mod grant;
pub(crate) mod segment;
pub(crate) mod segment_shape;
pub(crate) mod sync;
