//! The decoder: its layers, the row-wise operators between the products, and one call for all of it.

mod activation;
#[allow(clippy::module_inception)] // the file of the room's main type
mod decoder;
mod embedding;
mod layer;
mod lm_head;
mod mixture;
mod mlp;
mod norm;
mod output_rows;
mod routing;
mod shape;
mod split;
mod tap;
mod top_k;
mod workspace;

pub use activation::silu_mul;
pub(crate) use decoder::BLOCK_ROWS;
pub use decoder::{Decoder, DecoderParts, Step, TopTokens};
pub use embedding::Embedding;
pub(crate) use embedding::Target;
pub use layer::{Layer, Mlp};
pub use mixture::Mixture;
pub use mlp::Dense;
pub(crate) use norm::{NormRows, add_delta, narrow};
pub use norm::{add_rms_norm, rms_norm};
pub(crate) use shape::Widths;
pub use split::{Exchange, Split, Whole};
pub use tap::{Features, Tap};
pub(crate) use tap::{Follower, Tapped};
pub use top_k::{TOP_K, top_k};
pub(crate) use top_k::{TopKRow, total_weight};
pub(crate) use workspace::{Buffers, LayerPass, Workspace};
