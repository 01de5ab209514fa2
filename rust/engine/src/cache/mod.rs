//! Pages of the key-value cache, and who may reuse what is in them.

#[expect(
    clippy::module_inception,
    reason = "the owner of the room is named by it"
)]
mod cache;
mod draft_key_calls;
mod draft_keys;
mod eviction;
mod feature_calls;
mod features;
#[cfg(test)]
mod ledger;
mod loans;
mod pool;
mod prefix;
mod reuse;
mod siblings;
mod table;
#[cfg(test)]
mod tests;
mod written;

pub(crate) use cache::Cache;
pub(crate) use draft_keys::Planned;
pub use features::LEFT_OUT;
pub(crate) use reuse::{CachedPrefix, Resident};
pub(crate) use table::PageTable;
