//! Memory of weights, caches and activations, and how several threads write parts of it.

mod mapped;

pub(crate) use mapped::{Buffer, Piece, SharedSlice};
