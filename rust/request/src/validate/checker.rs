//! Gathers what is wrong with a request.

use crate::Violation;

/// Gathers violations.
#[derive(Debug, Default)]
pub(super) struct Checker {
    pub(super) violations: Vec<Violation>,
}

impl Checker {
    pub(super) fn refuse(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.violations.push(Violation::new(field, message));
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
