//! What the caller's key allows.

use std::sync::Arc;
use std::time::Instant;

use super::key_entry::KeyEntry;
use super::usage::{Pass, Usage};
use crate::error::{ErrorKind, MAX_ECHO_BYTES, RequestError, cut};
use crate::fleet::Fleet;

/// A key that was recognized. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Grant {
    pub(super) entry: Arc<KeyEntry>,
    pub(super) usage: Arc<Usage>,
    /// Who has the same key elsewhere.
    pub(super) fleet: Fleet,
}

impl Grant {
    /// Whose requests the key sends.
    pub fn tenant(&self) -> &str {
        &self.entry.tenant
    }

    /// Whether the key may use a model.
    pub fn allows_model(&self, model: &str) -> bool {
        let models = self.entry.models.as_ref();
        models.is_none_or(|models| models.iter().any(|one| one == model))
    }

    /// # Errors
    /// [`ErrorKind::PermissionDenied`] for a model that the key may not use; whether it is served
    /// the error does not say.
    pub(crate) fn check_model(&self, model: &str) -> Result<(), RequestError> {
        if self.allows_model(model) {
            return Ok(());
        }
        let model = cut(model, MAX_ECHO_BYTES);
        let models = self.entry.models.as_deref().unwrap_or_default();
        let allowed = models.join(", ");
        let denied = denied(format!(
            "model {model:?} is not open to this key; allowed: {allowed}"
        ));
        Err(RequestError {
            resource: Some(Box::new(("model", model.into_owned()))),
            ..denied
        })
    }

    /// # Errors
    /// [`ErrorKind::PermissionDenied`] for a priority above the key's highest.
    pub(crate) fn check_priority(&self, priority: i32) -> Result<(), RequestError> {
        match self.entry.max_priority {
            Some(highest) if priority > highest => Err(denied(format!(
                "priority: given {priority}; allowed with this key: up to {highest}"
            ))),
            _ => Ok(()),
        }
    }

    /// Counts a request that begins.
    ///
    /// # Errors
    /// As [`Usage::begin`].
    pub(crate) fn begin(&self) -> Result<Pass, RequestError> {
        self.usage.begin(&self.entry, &self.fleet, Instant::now())
    }

    /// Counts a request that goes on.
    ///
    /// # Errors
    /// As [`Usage::go_on`].
    pub(crate) fn go_on(&self) -> Result<Pass, RequestError> {
        self.usage.go_on(&self.entry, &self.fleet, Instant::now())
    }
}

fn denied(message: String) -> RequestError {
    RequestError::new(ErrorKind::PermissionDenied, message)
}
