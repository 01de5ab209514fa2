//! Corpora: named text with its index, built offline by an operator.

mod block_file;
mod blocks;
pub(crate) mod building;
pub(crate) mod corpus;
pub(crate) mod corpus_cache;
mod frames;
mod header;
mod layout;
mod loader;
pub(crate) mod read_budget;
mod reader;
pub(crate) mod readers;
#[cfg(test)]
mod tests;
