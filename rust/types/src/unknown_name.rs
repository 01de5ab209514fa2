//! The error of a name that no variant has.

use std::error::Error;
use std::fmt;

/// A name that an enum does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    /// What is named, such as `speculation`.
    pub what: &'static str,
    /// The name that was given.
    pub given: String,
    /// The names that are allowed.
    pub allowed: Vec<&'static str>,
}

impl UnknownName {
    /// `given` is not one of `allowed`.
    pub(crate) fn new(
        what: &'static str,
        given: &str,
        allowed: impl IntoIterator<Item = &'static str>,
    ) -> Self {
        Self {
            what,
            given: given.to_owned(),
            allowed: allowed.into_iter().collect(),
        }
    }

    /// The allowed names, separated by commas.
    pub fn allowed(&self) -> String {
        self.allowed.join(", ")
    }
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, given) = (self.what, &self.given);
        write!(f, "{what} is {given:?}; allowed: {}", self.allowed())
    }
}

impl Error for UnknownName {}
