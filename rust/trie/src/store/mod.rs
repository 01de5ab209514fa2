//! Text in arenas and files: links, publication to readers, atomic writes.

pub(crate) mod atomic_file;
pub(crate) mod chains;
pub(crate) mod extent;
pub(crate) mod grant;
pub(crate) mod segment;
pub(crate) mod segment_shape;
pub(crate) mod sync;
