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
}
