//! What requests of one namespace share, under one byte budget, and its snapshot.

pub(crate) mod lesson;
pub(crate) mod memory;
pub(crate) mod pool;
pub(crate) mod shared;
pub(crate) mod snapshot;
