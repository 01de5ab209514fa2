//! Memory of weights, caches and activations, and how several threads write parts of it.

mod columns;
mod mapped;
mod piece;
mod shared_slice;

pub use columns::Columns;
pub(crate) use mapped::Buffer;
pub(crate) use piece::Piece;
pub(crate) use shared_slice::SharedSlice;
