//! Text in arenas and files: links, heads, publication to readers, atomic writes.

pub(crate) mod atomic_file;
pub(crate) mod block;
pub(crate) mod block_shape;
pub(crate) mod buckets;
pub(crate) mod chains;
pub(crate) mod dirty;
pub(crate) mod disk;
pub(crate) mod extent;
pub(crate) mod grant;
pub(crate) mod heads;
pub(crate) mod relink;
pub(crate) mod resize;
pub(crate) mod sync;
pub(crate) mod threads;
pub(crate) mod view;
