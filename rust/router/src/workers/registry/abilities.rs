//! What the workers of a model can do.

use super::Registry;

impl Registry {
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
