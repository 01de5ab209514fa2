//! What the workers of a model compute like.

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
}
