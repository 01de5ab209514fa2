//! Building corpus files of any size in bounded memory.

mod cells;
mod scratch;
mod word_writer;
