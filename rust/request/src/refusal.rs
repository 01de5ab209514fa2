//! Why a request cannot be resolved: every field at fault, and the kind of the first.

use crate::Violation;

/// Kinds of refusal, which APIs report under codes of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// A field breaks its limit.
    InvalidField,
    /// Prompt and answer do not fit into the context.
    ContextLength,
    /// The caller may not set the field.
    PermissionDenied,
    /// The model cannot do what the field asks for.
    Unsupported,
}

/// A refused request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Of the first violation.
    pub kind: RefusalKind,
    /// Every violation, in the order in which a request is resolved.
    pub violations: Vec<Violation>,
}

impl Refusal {
    /// One field at fault.
    pub fn new(kind: RefusalKind, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            kind,
            violations: vec![Violation::new(field, message)],
        }
    }

    /// One field that breaks its limit.
    pub fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(RefusalKind::InvalidField, field, message)
    }
}

/// Gathers refusals, so that one answer names every field at fault.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    gathered: Option<Refusal>,
}

impl Refusals {
    pub(crate) fn add(&mut self, refusal: Refusal) {
        match &mut self.gathered {
            Some(gathered) => gathered.violations.extend(refusal.violations),
            None => self.gathered = Some(refusal),
        }
    }

    /// The value of a result; a refusal is kept, and the default takes its place.
    pub(crate) fn value_or_default<T: Default>(&mut self, result: Result<T, Refusal>) -> T {
        result.unwrap_or_else(|refusal| {
            self.add(refusal);
            T::default()
        })
    }

    pub(crate) fn into_result(self) -> Result<(), Refusal> {
        self.gathered.map_or(Ok(()), Err)
    }
}
