//! Attention over the paged key-value cache, and the batch that says which row sees what.

#[allow(clippy::module_inception)] // the file of the room's main type
mod attention;
mod batch;
mod cache;
mod rotary;
mod softmax;
mod write_kv;

pub(crate) use attention::AttentionPass;
pub use attention::{Attention, AttentionConfig, LayerConfig};
pub use batch::{Batch, BatchArrays, PAGE_SIZE};
