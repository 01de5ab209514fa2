//! What requests of one namespace share, under one byte budget, and its snapshot.

pub(crate) mod document;
pub(crate) mod draft_memory;
pub(crate) mod insertion;
pub(crate) mod pool;
pub(crate) mod shared_trie;
pub(crate) mod snapshot;
