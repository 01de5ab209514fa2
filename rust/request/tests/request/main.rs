//! Requests of a model whose tokens are bytes: what they resolve to, and what becomes of tokens.

#![allow(clippy::unwrap_used)] // helpers of tests fail by panicking

mod answer;
mod byte_tokenizer;
mod fuzz;
mod resolve;
mod support;
