//! Tokenizer and chat template from the files of a model.

use crate::error::TextError;
use crate::template::ChatTemplate;
use crate::tokenizer::Tokenizer;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

const CONFIG: &str = "tokenizer_config.json";

/// Tokenizer and chat template of a model.
#[derive(Debug)]
pub struct TextFiles {
    /// From tokenizer.json.
    pub tokenizer: Tokenizer,
    /// From `chat_template.jinja`, else from `tokenizer_config.json`; `None` if the model has none.
    pub template: Option<ChatTemplate>,
}

impl TextFiles {
    /// Reads the files in `folder`; only tokenizer.json is required.
    ///
    /// # Errors
    /// [`TextError::Read`] if a file cannot be read, and those of [`from_bytes`](Self::from_bytes).
    pub fn from_folder(folder: &Path) -> Result<Self, TextError> {
        let required = |name: &str| {
            let path = folder.join(name);
            std::fs::read(&path).map_err(|source| TextError::Read { path, source })
        };
        let optional = |name: &str| match required(name) {
            Err(TextError::Read { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                Ok(None)
            }
            other => other.map(Some),
        };
        Self::from_bytes(
            &required("tokenizer.json")?,
            optional(CONFIG)?.as_deref(),
            optional("chat_template.jinja")?.as_deref(),
        )
    }

    /// Parses the bytes of tokenizer.json, `tokenizer_config.json` and `chat_template.jinja`.
    ///
    /// The configuration provides the special tokens by name, and the template if it has no file of
    /// its own.
    ///
    /// # Errors
    /// [`TextError::InvalidTokenizer`], [`TextError::UnsupportedDecoder`],
    /// [`TextError::InvalidConfig`] or [`TextError::InvalidTemplate`].
    pub fn from_bytes(
        tokenizer_json: &[u8],
        tokenizer_config: Option<&[u8]>,
        chat_template: Option<&[u8]>,
    ) -> Result<Self, TextError> {
        let config: Value = match tokenizer_config {
            None => Value::Null,
            Some(bytes) => {
                serde_json::from_slice(bytes).map_err(|source| TextError::InvalidConfig {
                    file: CONFIG,
                    source,
                })?
            }
        };
        let source = match chat_template {
            Some(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            None => default_template(&config["chat_template"]),
        };
        let template = source
            .map(|source| ChatTemplate::new(&source, special_tokens(&config)))
            .transpose()?;
        Ok(Self {
            tokenizer: Tokenizer::from_bytes(tokenizer_json)?,
            template,
        })
    }
}

/// One template, or the one named `default` of several.
fn default_template(value: &Value) -> Option<String> {
    let text = match value.as_array() {
        None => value,
        Some(named) => &named.iter().find(|entry| entry["name"] == "default")?["template"],
    };
    text.as_str().map(str::to_owned)
}

/// `bos_token` and its like: plain strings, or objects with the string in `content`.
fn special_tokens(config: &Value) -> BTreeMap<String, String> {
    let Some(entries) = config.as_object() else {
        return BTreeMap::new();
    };
    entries
        .iter()
        .filter(|(name, _)| name.ends_with("_token"))
        .filter_map(|(name, value)| {
            let token = value.as_str().or_else(|| value["content"].as_str())?;
            Some((name.clone(), token.to_owned()))
        })
        .collect()
}
