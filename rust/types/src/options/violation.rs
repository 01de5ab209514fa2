//! What is wrong with the options that were given.

use std::error::Error;
use std::fmt;

/// One option that cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Its name.
    pub name: String,
    /// What was given, and what is allowed or to be done.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}", self.name, self.message)
    }
}

/// Every option that cannot be taken: one line each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Violations(pub Vec<Violation>);

impl Violations {
    /// Adds one.
    pub fn push(&mut self, name: &str, message: impl Into<String>) {
        self.0.push(Violation {
            name: name.to_owned(),
            message: message.into(),
        });
    }

    /// Adds a value that is not allowed.
    pub fn refuse(&mut self, name: &str, given: impl fmt::Display, allowed: impl fmt::Display) {
        self.push(name, format!("{given}; allowed: {allowed}"));
    }

    /// Whether there is none.
    ///
    /// # Errors
    /// Itself, when there is one.
    pub fn check(self) -> Result<(), Self> {
        if self.0.is_empty() { Ok(()) } else { Err(self) }
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, violation) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            violation.fmt(f)?;
        }
        Ok(())
    }
}

impl Error for Violations {}
