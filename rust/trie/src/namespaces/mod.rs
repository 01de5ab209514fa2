//! Text shared by the requests of a namespace, under one byte budget, and its snapshots.

mod blocks;
pub(crate) mod document;
pub(crate) mod draft_memory;
pub(crate) mod insertion;
pub(crate) mod pool;
pub(crate) mod rescue;
pub(crate) mod shared_trie;
pub(crate) mod snapshot;
pub(crate) mod upkeep;
