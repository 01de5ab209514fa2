//! Draft memory: token sources, scores and draft trees.
//!
//! A request's likely continuations come from text, not from a second model: its own prompt and
//! output, a `prediction` the caller sent, and what its namespace learnt from other requests.
//! Each step they are drafted as one small tree that the model verifies in a single forward. A
//! wrong draft costs time and never changes the output.

mod best_first;
mod bigrams;
mod calibration;
mod chains;
mod config;
mod corpus;
mod drafter;
mod durable;
mod error;
mod evidence;
mod favourites;
mod features;
mod fixed;
mod hints;
#[cfg(all(test, loom))]
mod interleavings;
mod lesson;
mod memory;
mod mixer;
#[cfg(test)]
mod mutate;
mod places;
mod pool;
mod prediction;
mod recycled;
#[cfg(test)]
mod reference;
pub mod replay;
mod score;
mod segment;
mod shared;
mod sketch;
mod snapshot;
mod source;
mod sync;
mod text;
mod token;
mod tree;
mod weights;

pub use bigrams::Bigrams;
pub use config::{DraftConfig, DraftMode, MAX_DEPTH, MAX_MATCH, MemoryConfig};
pub use corpus::{Corpus, CorpusBuilder, CorpusInfo, Readers};
pub use drafter::Drafter;
pub use error::TrieError;
pub use lesson::{Lesson, Taught};
pub use memory::DraftMemory;
pub use recycled::TOP_K;
pub use shared::{NamespaceInfo, SharedTrie};
pub use snapshot::SnapshotInfo;
pub use source::Source;
pub use token::{SEPARATOR, TokenId};
pub use tree::{DraftNode, DraftTree};
pub use weights::Weights;
