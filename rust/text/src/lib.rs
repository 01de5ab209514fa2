//! Tokenizer, chat template, incremental detokenization and stop strings. No network.
//!
//! [`Tokenizer`] converts text to token ids and back. [`ChatTemplate`] renders messages to a prompt.
//! [`TextStream`] converts token ids to text incrementally and stops at stop strings. [`TextFiles`]
//! loads tokenizer and template from a model folder or from the bytes of its files.
//! [`tokenizer_fingerprint`] identifies a tokenizer.

mod clock;
mod error;
mod files;
mod fingerprint;
mod json;
mod pieces;
mod reach;
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
