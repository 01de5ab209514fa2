//! Named text that an operator built offline: read-only, memory-mapped, indexed already.

pub(crate) mod builder;
pub(crate) mod corpus;
mod file;
#[cfg(test)]
mod fuzz;
mod map;
pub(crate) mod readers;
