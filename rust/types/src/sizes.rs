//! Sizes that the engine and a forward agree on.

/// Likeliest tokens that a forward reports for a row.
pub const TOP_K: usize = 8;

/// Slots of a page of the cache: keys and values of this many tokens.
pub const PAGE_SIZE: usize = 16;

/// Drafters beside one model at most.
pub const MAX_DRAFTERS: usize = 4;
