//! Gathers what is wrong with a request.

use super::Violation;

/// Gathers violations.
#[derive(Debug, Default)]
pub(super) struct Checker {
    pub(super) violations: Vec<Violation>,
}

impl Checker {
    pub(super) fn refuse(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.violations.push(Violation {
            field: field.into(),
            message: message.into(),
        });
    }

    pub(super) fn check(&mut self, holds: bool, field: &str, message: impl FnOnce() -> String) {
        if !holds {
            self.refuse(field, message());
        }
    }

    /// Refuses a number outside `allowed`, which also catches NaN.
    pub(super) fn check_number(
        &mut self,
        value: Option<f32>,
        field: &str,
        allowed: impl FnOnce(f32) -> bool,
        range: &str,
    ) {
        if let Some(value) = value
            && !(value.is_finite() && allowed(value))
        {
            self.refuse(field, format!("given {value}, allowed {range}"));
        }
    }
}

/// Refuses the first id outside the vocabulary.
pub(super) fn check_ids(checker: &mut Checker, field: &str, ids: &[u32], vocabulary_size: u32) {
    if let Some((index, id)) = ids
        .iter()
        .enumerate()
        .find(|(_, id)| **id >= vocabulary_size)
    {
        refuse_id(checker, format!("{field}[{index}]"), *id, vocabulary_size);
    }
}

/// Says which ids there are.
pub(super) fn refuse_id(checker: &mut Checker, field: String, id: u32, vocabulary_size: u32) {
    let largest = vocabulary_size.saturating_sub(1);
    checker.refuse(
        field,
        format!("given token id {id}, allowed 0 to {largest}"),
    );
}
