//! The byte budget that all namespaces share: who has how much of it, and who makes room.

mod block_sizes;
mod drops;
pub(crate) mod pool;
mod shares;
pub(crate) mod weights;
