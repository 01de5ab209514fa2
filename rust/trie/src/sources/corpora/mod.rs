//! Corpora: named text with its index, built offline by an operator.

pub(crate) mod builder;
pub(crate) mod corpus;
mod building;
mod file;
mod frames;
#[cfg(test)]
mod fuzz;
mod header;
mod layout;
mod loader;
mod map;
pub(crate) mod readers;
