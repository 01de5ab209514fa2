//! A stream as its client is checked against it, whether it runs or was cut.

use super::record::{Record, RecordedChoice};
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
    /// Whose share of the workers it takes.
    pub(crate) share: String,
    /// Of each choice, the tokens that count.
    pub(crate) num_tokens: Vec<u32>,
    /// Of each choice, whether it has ended.
    pub(crate) has_ended: Vec<bool>,
}

impl Outline {
    /// Its client may have more of what has not ended: another router went on with it.
    pub(crate) fn may_be_behind(&mut self) {
        for (num_tokens, has_ended) in self.num_tokens.iter_mut().zip(&self.has_ended) {
            if !has_ended {
                *num_tokens = u32::MAX;
            }
        }
    }

    /// Choices that have not ended.
    pub(crate) fn num_unfinished(&self) -> usize {
        self.has_ended
            .iter()
            .filter(|has_ended| !**has_ended)
            .count()
    }
}

/// Tokens of a choice that count: what is known of it, or up to its client's mark, which may be ahead of a
/// choice that goes on.
pub(crate) fn num_counted(num_tokens: u32, mark: u32, has_ended: bool, most: u32) -> u32 {
    if has_ended {
        num_tokens
    } else {
        num_tokens.max(mark.min(most))
    }
}

impl From<&Record> for Outline {
    fn from(record: &Record) -> Self {
        let ends = record.choices.iter().map(|choice| choice.end.is_some());
        let most = record.request.max_tokens;
        let num_tokens = |choice: &RecordedChoice| {
            let num_tokens = choice.emitted.len() as u32;
            num_counted(num_tokens, choice.mark, choice.end.is_some(), most)
        };
        Self {
            token: record.token.clone(),
            has_form: record.form.is_some(),
            model: record.model.clone(),
            model_hash: record.model_hash.clone(),
            model_digest: record.model_digest.clone(),
            priority: record.request.priority,
            share: record.request.share().to_owned(),
            num_tokens: record.choices.iter().map(num_tokens).collect(),
            has_ended: ends.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failover::example;

    #[test]
    fn only_what_has_not_ended_may_be_ahead_elsewhere() {
        let mut record = example(None, "a", 1);
        record.choices.push(record.choices[0].clone());
        record.choices[0].end = Some(spectrie_proto::v1::Finished::default());
        let mut outline = Outline::from(&record);
        outline.may_be_behind();
        assert_eq!(outline.num_tokens, [1, u32::MAX]);
    }
}
