//! Matrix products with packed weights.

mod linear;
mod packing;
mod product;
mod tile;

pub use linear::Linear;
pub use packing::{LinearSource, Stored, pack_all};
