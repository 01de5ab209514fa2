//! Pages of the key-value cache, and who may reuse what is in them.

pub(crate) mod pool;
pub(crate) mod prefix;
pub(crate) mod reuse;
