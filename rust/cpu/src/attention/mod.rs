//! Attention over the paged key-value cache, and the batch that defines which row sees what.

#[allow(clippy::module_inception)] // the file of the room's main type
mod attention;
mod batch;
mod cache;
mod config;
mod rotary;
mod softmax;
mod write_kv;

pub use attention::Attention;
pub(crate) use attention::AttentionPass;
pub use batch::{Batch, BatchArrays, PAGE_SIZE};
pub(crate) use batch::{BatchRow, indices};
pub use config::{AttentionConfig, LayerConfig};
