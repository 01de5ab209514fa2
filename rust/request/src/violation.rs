//! What is wrong with one field.

use std::fmt;

/// One field that breaks its limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Path of the field as the proto file names it, such as `sampling.top_p` or `stopping.stop[2]`.
    pub field: String,
    /// What was given and what is allowed, lower case.
    pub message: String,
}

impl Violation {
    /// A field and what is wrong with it.
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            message: message.into(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.field, self.message)
    }
}
