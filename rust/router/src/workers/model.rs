//! What the router knows of a served model: its text side and its defaults.

use spectrie_proto::worker_v1::Hello;
use spectrie_request::{Model, SamplingDefaults};
use spectrie_text::{TextError, TextFiles};

use super::artifacts::{Artifacts, CHAT_TEMPLATE, GENERATION_CONFIG, TOKENIZER, TOKENIZER_CONFIG};
use crate::fleet::ModelKey;

/// A model by its served name.
#[derive(Debug)]
pub(crate) struct ServedModel {
    pub(crate) name: String,
    pub(crate) model_hash: String,
    /// Digest of the artifacts.
    pub(crate) digest: String,
    pub(crate) vocabulary_size: u32,
    /// Tokenizer and chat template.
    pub(crate) text: TextFiles,
    pub(crate) defaults: SamplingDefaults,
}

impl ServedModel {
    /// Builds tokenizer and template from a worker's files.
    ///
    /// # Errors
    /// Names the bad file and its fault.
    pub(crate) fn build(
        hello: &Hello,
        artifacts: &Artifacts,
        digest: String,
    ) -> Result<Self, TextError> {
        let text = TextFiles::from_bytes(
            artifacts.get(TOKENIZER).unwrap_or_default(),
            artifacts.get(TOKENIZER_CONFIG),
            artifacts.get(CHAT_TEMPLATE),
        )?;
        let defaults = artifacts
            .get(GENERATION_CONFIG)
            .map(|json| read_defaults(&hello.model, json))
            .unwrap_or_default();
        Ok(Self {
            name: hello.model.clone(),
            model_hash: hello.model_hash.clone(),
            digest,
            vocabulary_size: hello.vocabulary_size,
            text,
            defaults,
        })
    }

    /// Names it to other routers.
    pub(crate) fn fleet_key(&self) -> ModelKey {
        ModelKey::new(&self.model_hash, &self.digest)
    }

    /// What requests are resolved against, when the largest context of its workers is `max_context`.
    pub(crate) fn facts(&self, max_context: u32) -> Model<'_> {
        Model {
            name: &self.name,
            vocabulary_size: self.vocabulary_size,
            max_context,
            text: &self.text,
            defaults: &self.defaults,
        }
    }
}

/// Reads the file; what is not used of it is logged.
fn read_defaults(model: &str, json: &[u8]) -> SamplingDefaults {
    match SamplingDefaults::read(json) {
        Ok((defaults, unused)) => {
            for (name, given) in unused {
                let message = "default of generation_config.json is not used";
                tracing::warn!(model, name, given, "{message}");
            }
            defaults
        }
        Err(error) => {
            tracing::warn!(model, %error, "generation_config.json is not used");
            SamplingDefaults::default()
        }
    }
}
