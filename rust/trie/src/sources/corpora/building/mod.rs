//! Building corpus files of any size in bounded memory.

pub(crate) mod builder;
mod cells;
pub(crate) mod index_writer;
mod scratch;
mod word_writer;
