//! Text shared by the requests of a namespace, under one byte budget, and its snapshots.

mod blocks;
pub(crate) mod document;
pub(crate) mod draft_memory;
pub(crate) mod insertion;
mod names;
pub(crate) mod rescue;
mod roster;
pub(crate) mod shared_trie;
pub(crate) mod snapshot;
mod tenancy;
pub(crate) mod upkeep;
