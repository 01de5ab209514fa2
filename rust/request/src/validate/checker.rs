//! Gathers what is wrong with a request.

use crate::Violation;

/// Violations that are named one by one: an answer that names more is larger than a caller reads, and a hostile
/// request has millions.
const MAX_NAMED: usize = 32;

/// Gathers violations.
#[derive(Debug, Default)]
pub(super) struct Checker {
    violations: Vec<Violation>,
    /// Those beyond the named ones.
    num_more: usize,
}

impl Checker {
    pub(super) fn refuse(&mut self, field: impl Into<String>, message: impl Into<String>) {
        if self.violations.len() < MAX_NAMED {
            self.violations.push(Violation::new(field, message));
        } else {
            self.num_more += 1;
        }
    }

    pub(super) fn check(&mut self, holds: bool, field: &str, message: impl FnOnce() -> String) {
        if !holds {
            self.refuse(field, message());
        }
    }

    /// What was gathered; the last one says how many more there are.
    pub(super) fn into_violations(mut self) -> Vec<Violation> {
        if self.num_more > 0
            && let Some(last) = self.violations.last_mut()
        {
            last.message = format!("{}; {} more are wrong", last.message, self.num_more);
        }
        self.violations
    }
}
