//! Draft memory: token sources, scores and draft trees.
//!
//! A request's likely continuations come from text, not from a second model: its own prompt and
//! output, a `prediction` the caller sent, and what its namespace learnt from other requests.
//! Each step they are drafted as one small tree that the model verifies in a single forward. A
//! wrong draft costs time and never changes the output.

mod config;
mod error;
mod source;
mod token;
mod tree;

pub use config::{DraftConfig, DraftMode, MAX_DEPTH, MAX_MATCH, MemoryConfig};
pub use error::TrieError;
pub use source::Source;
pub use token::{SEPARATOR, TokenId};
pub use tree::{DraftNode, DraftTree};
