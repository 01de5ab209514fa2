//! What can go wrong with text.

use std::path::PathBuf;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// A file of the model cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// tokenizer.json is not a tokenizer.
    #[error("tokenizer.json cannot be used: {source}")]
    InvalidTokenizer {
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The tokenizer turns ids into text by a rule that cannot be followed token by token.
    #[error(
        "tokenizer.json has the decoder {found}; supported are ByteLevel, Metaspace, none, and a \
         Sequence of Replace, ByteFallback, Fuse and Strip"
    )]
    UnsupportedDecoder {
        /// The decoder, as JSON.
        found: String,
    },
    /// The tokenizer refused a text or a list of ids.
    #[error("the tokenizer failed: {source}")]
    Tokenizer {
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A configuration file of the model is not the JSON it should be.
    #[error("{file} is not valid: {source}")]
    InvalidConfig {
        /// Name of the file.
        file: &'static str,
        /// Where and why.
        source: serde_json::Error,
    },
    /// The chat template does not parse.
    #[error("the model's chat template is not valid: {source:#}")]
    InvalidTemplate {
        /// Where and why.
        source: minijinja::Error,
    },
    /// The template called `raise_exception`: these messages are not allowed for this model.
    #[error("the model's chat template refuses these messages: {message}")]
    TemplateRefused {
        /// The template's own words.
        message: String,
    },
    /// The template failed on these messages.
    #[error("the model's chat template failed on these messages: {source:#}")]
    TemplateFailed {
        /// Where and why.
        source: minijinja::Error,
    },
    /// The template ran for too long.
    #[error("the model's chat template took more than {limit} instructions on these messages")]
    TemplateEndless {
        /// Instructions allowed.
        limit: u64,
    },
    /// The model has no chat template.
    #[error("the model has no chat template")]
    NoTemplate,
    /// A stop string is empty.
    #[error("stop[{index}] is empty; a stop string needs at least one character")]
    EmptyStop {
        /// Its place in the list.
        index: usize,
    },
}
