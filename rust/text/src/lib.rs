//! Tokenizer, chat template, incremental detokenization and stop strings. No network.
//!
//! [`Tokenizer`] turns text into token ids and back, [`ChatTemplate`] turns messages into a prompt,
//! [`TextStream`] turns token ids into text as they come and finds stop strings in it.
//! [`TextFiles`] reads all of it from a model folder or from the bytes of its files,
//! [`tokenizer_fingerprint`] distinguishes tokenizers.

mod clock;
mod error;
mod files;
mod fingerprint;
mod json;
mod pieces;
mod stop;
mod stream;
mod template;
mod tokenizer;
mod utf8;

pub use error::TextError;
pub use files::TextFiles;
pub use fingerprint::tokenizer_fingerprint;
pub use stream::{TextDelta, TextStream};
pub use template::{ChatTemplate, TemplateOptions};
pub use tokenizer::Tokenizer;
