//! From a row of logits to a token: sampling options, seeded noise, log-probabilities and grammars.
//!
//! A [`Sampler`] draws from one row at a time and knows neither requests nor pages. What it draws
//! depends on the row and the [`Draw`] alone.

// Passes over rows are compiled for the detected instructions only where they are inlined into
// `spectrie_simd::Work::run`. They are plain Rust, so all instructions give the same bits.
#![allow(clippy::inline_always)]

mod argmax;
mod candidate;
mod error;
mod exp;
mod grammar;
mod history;
mod ln;
mod logprobs;
pub mod mass;
pub mod noise;
mod sampler;
mod select;
mod typical;

pub use error::SamplingError;
pub use grammar::{
    AllowedTokens, ForcedTokens, Grammar, GrammarCompiler, GrammarCursor, GrammarEnd, GrammarSpec,
    GrammarState,
};
pub use history::{History, completions};
pub use logprobs::TokenLogprobs;
pub use sampler::{Draw, NoToken, Sampler};
pub use spectrie_types::options::{MIN_TEMPERATURE, SamplingParameters};
