//! The error of the crate.

use std::path::PathBuf;

/// An error of tokenizing, rendering a template or assembling text.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// A file of the model cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// tokenizer.json is not a valid tokenizer.
    #[error("tokenizer.json is not a valid tokenizer: {source}")]
    InvalidTokenizer {
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The decoder of the tokenizer cannot run token by token.
    #[error(
        "decoder of tokenizer.json is {found}; allowed: ByteLevel, Metaspace, none, and a Sequence \
         of Replace, ByteFallback, Fuse and Strip"
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
    /// A text has more tokens than the caller takes.
    #[error("the text has more than {limit} tokens")]
    TooLong {
        /// Most tokens that the caller takes.
        limit: usize,
    },
    /// A configuration file of the model is not the expected JSON.
    #[error("{file} is not valid: {source}")]
    InvalidConfig {
        /// Name of the file.
        file: &'static str,
        /// Where and why.
        source: serde_json::Error,
    },
    /// The chat template is not valid Jinja.
    #[error("the model's chat template is not valid: {source:#}")]
    InvalidTemplate {
        /// Where and why.
        source: minijinja::Error,
    },
    /// The template called `raise_exception`, because the model does not support these messages.
    #[error("the model's chat template refuses these messages: {message}")]
    TemplateRefused {
        /// The message of the template.
        message: String,
    },
    /// The template failed on these messages.
    #[error("the model's chat template failed on these messages: {source:#}")]
    TemplateFailed {
        /// Where and why.
        source: minijinja::Error,
    },
    /// The template exceeded its instruction limit.
    #[error(
        "the model's chat template exceeds {limit} instructions on these messages; send shorter ones"
    )]
    TemplateEndless {
        /// Maximum number of instructions.
        limit: u64,
    },
    /// The model has no chat template.
    #[error("the model has no chat template; send text instead of messages")]
    NoTemplate,
    /// A stop string is empty.
    #[error("stop[{index}] is empty; allowed: at least one character")]
    EmptyStop {
        /// Its index in the list.
        index: usize,
    },
}
