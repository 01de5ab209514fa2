//! Corpora: named text with its index, built offline by an operator.

pub(crate) mod builder;
pub(crate) mod corpus;
mod file;
#[cfg(test)]
mod fuzz;
mod map;
pub(crate) mod readers;
