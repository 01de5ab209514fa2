//! A stream as its client is checked against it, whether it runs or was cut.

use super::record::Record;
use super::resume_token::ResumeToken;

/// A stream that its client can go on with, from outside.
#[derive(Clone, Debug)]
pub(crate) struct Outline {
    /// Its client's secret.
    pub(crate) token: ResumeToken,
    /// Whether an API wrote down how to form its answer again.
    pub(crate) has_form: bool,
    /// Served name of the model, and what its weights and its text side are known by.
    pub(crate) model: String,
    pub(crate) model_hash: String,
    pub(crate) model_digest: String,
    pub(crate) priority: i32,
    /// Of each choice, the tokens that count.
    pub(crate) num_tokens: Vec<u32>,
}

impl From<&Record> for Outline {
    fn from(record: &Record) -> Self {
        let choices = record.choices.iter();
        Self {
            token: record.token.clone(),
            has_form: record.form.is_some(),
            model: record.model.clone(),
            model_hash: record.model_hash.clone(),
            model_digest: record.model_digest.clone(),
            priority: record.request.priority,
            num_tokens: choices.map(|choice| choice.emitted.len() as u32).collect(),
        }
    }
}
