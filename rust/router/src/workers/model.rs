//! What the router knows of a served model: its text side and its defaults.

use serde::Deserialize;
use spectrie_proto::worker_v1::Hello;
use spectrie_text::{ChatTemplate, TextError, TextFiles, Tokenizer};

use super::artifacts::{Artifacts, CHAT_TEMPLATE, GENERATION_CONFIG, TOKENIZER, TOKENIZER_CONFIG};

/// Sampling numbers of `generation_config.json`; absent ones take the API's own defaults.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SamplingDefaults {
    pub(crate) temperature: Option<f32>,
    pub(crate) top_p: Option<f32>,
    pub(crate) top_k: Option<u32>,
    pub(crate) min_p: Option<f32>,
    pub(crate) repetition_penalty: Option<f32>,
}

impl SamplingDefaults {
    /// Reads the file; numbers outside what a request may ask for are left out, with a log line.
    fn parse(model: &str, json: &[u8]) -> Self {
        let mut defaults: Self = match serde_json::from_slice(json) {
            Ok(defaults) => defaults,
            Err(error) => {
                tracing::warn!(model, %error, "generation_config.json is not used");
                return Self::default();
            }
        };
        let keep = |name: &str, value: &mut Option<f32>, allowed: fn(f32) -> bool| {
            if let Some(given) = *value
                && !allowed(given)
            {
                tracing::warn!(
                    model,
                    name,
                    given,
                    "default of generation_config.json is not used"
                );
                *value = None;
            }
        };
        keep("temperature", &mut defaults.temperature, |value| {
            (0.0..=100.0).contains(&value)
        });
        keep("top_p", &mut defaults.top_p, |value| {
            value > 0.0 && value <= 1.0
        });
        keep("min_p", &mut defaults.min_p, |value| {
            (0.0..=1.0).contains(&value)
        });
        keep(
            "repetition_penalty",
            &mut defaults.repetition_penalty,
            |value| value > 0.0 && value <= 10.0,
        );
        defaults
    }
}

/// A model by its served name.
#[derive(Debug)]
pub(crate) struct ServedModel {
    pub(crate) name: String,
    pub(crate) model_hash: String,
    /// Digest of the artifacts.
    pub(crate) digest: String,
    pub(crate) vocabulary_size: u32,
    pub(crate) tokenizer: Tokenizer,
    pub(crate) chat_template: Option<ChatTemplate>,
    pub(crate) defaults: SamplingDefaults,
}

impl ServedModel {
    /// Builds tokenizer and template from a worker's files.
    ///
    /// # Errors
    /// Says which file is bad, and how.
    pub(crate) fn build(
        hello: &Hello,
        artifacts: &Artifacts,
        digest: String,
    ) -> Result<Self, TextError> {
        let TextFiles {
            tokenizer,
            template,
        } = TextFiles::from_bytes(
            artifacts.get(TOKENIZER).unwrap_or_default(),
            artifacts.get(TOKENIZER_CONFIG),
            artifacts.get(CHAT_TEMPLATE),
        )?;
        let defaults = artifacts
            .get(GENERATION_CONFIG)
            .map(|json| SamplingDefaults::parse(&hello.model, json))
            .unwrap_or_default();
        Ok(Self {
            name: hello.model.clone(),
            model_hash: hello.model_hash.clone(),
            digest,
            vocabulary_size: hello.vocabulary_size,
            tokenizer,
            chat_template: template,
            defaults,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_outside_the_limits_are_left_out() {
        let json = br#"{"temperature": 0.2, "top_p": 1.5, "eos_token_id": [1, 2]}"#;
        let defaults = SamplingDefaults::parse("m", json);
        assert_eq!((defaults.temperature, defaults.top_p), (Some(0.2), None));
        assert_eq!(SamplingDefaults::parse("m", b"{").temperature, None);
    }
}
