//! Text shared by the requests of a namespace, under one byte budget, and its snapshots.

mod blocks;
pub(crate) mod document;
pub(crate) mod draft_memory;
mod drops;
pub(crate) mod insertion;
pub(crate) mod last_use;
mod names;
pub(crate) mod pool;
pub(crate) mod rescue;
pub(crate) mod shared_trie;
mod shares;
pub(crate) mod snapshot;
mod tenancy;
pub(crate) mod upkeep;
