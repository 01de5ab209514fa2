//! Draft memory: token sources, scores and draft trees.
//!
//! Likely continuations of a request come from text, not from a second model: from its own prompt
//! and output, a `prediction` sent by the caller, and the text of its namespace. In each step they
//! form one small tree that the model verifies in a single forward. A wrong draft costs time and
//! never changes the output.

mod budget;
mod config;
mod draft;
mod error;
mod namespaces;
pub mod replay;
mod score;
mod sources;
mod store;
#[cfg(test)]
mod testing;
mod token;

pub use config::{DraftConfig, DraftMode, MAX_DEPTH, MAX_MATCH, MemoryConfig};
pub use draft::drafter::Drafter;
pub use draft::inquiry::{Inquiry, MAX_NAMED};
pub use draft::tree::{DraftNode, DraftTree};
pub use error::TrieError;
pub use namespaces::draft_memory::DraftMemory;
pub use namespaces::insertion::Insertion;
pub use namespaces::shared_trie::{NamespaceInfo, SharedTrie, tenant_of};
pub use namespaces::snapshot::info::SnapshotInfo;
pub use score::head_prior::{HeadCounts, HeadPrior};
pub use score::weights::Weights;
pub use sources::all::Visits;
pub use sources::bigrams::Bigrams;
pub use sources::corpora::building::builder::CorpusBuilder;
pub use sources::corpora::building::index_writer::BuildProgress;
pub use sources::corpora::corpus::{Corpus, CorpusInfo, CorpusReads};
pub use sources::corpora::corpus_cache::CorpusCache;
pub use sources::corpora::readers::Readers;
pub use store::extent::InsertedRange;
pub use token::{SEPARATOR, TokenId};
