//! What the workers of a model can do.

use std::sync::Arc;

use super::Registry;
use crate::sync::lock;
use crate::workers::ServedModel;

impl Registry {
    /// A model that is or was served, by name or as the only one, and the longest context that a worker
    /// of it had.
    pub(crate) fn remembered(&self, name: Option<&str>) -> Option<(Arc<ServedModel>, u32)> {
        let state = lock(&self.state);
        let entry = match name {
            Some(name) => state.models.get(name)?,
            None => state.only_model().ok()?,
        };
        Some((entry.model.clone(), entry.max_context))
    }

    /// Whether a model's workers compute as this numeric fingerprint says, or those to come may.
    pub(crate) fn may_compute(&self, model: &str, fingerprint: &str) -> bool {
        let Ok((_, workers)) = self.workers(Some(model)) else {
            return true;
        };
        let mut prints = workers.iter().map(|one| &one.hello.numeric_fingerprint);
        workers.is_empty() || prints.any(|one| one == fingerprint)
    }

    /// Whether a worker of a model has a drafter, or those to come may.
    pub(crate) fn may_have_drafter(&self, model: &str) -> bool {
        let Ok((_, workers)) = self.workers(Some(model)) else {
            return true;
        };
        workers.is_empty() || workers.iter().any(|one| one.hello.drafter.is_some())
    }
}
