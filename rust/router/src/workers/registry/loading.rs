//! Workers that said hello and are not ready yet.

use std::sync::Arc;

use super::Registry;
use crate::sync::lock;

impl Registry {
    /// Notes that a worker of `model` is loading; the guard's end says that it no longer is.
    pub(in crate::workers) fn begin_loading(self: &Arc<Self>, model: &str) -> Loading {
        *lock(&self.state)
            .loading
            .entry(model.to_owned())
            .or_default() += 1;
        self.changed();
        Loading {
            registry: self.clone(),
            model: model.to_owned(),
        }
    }
}

/// Held while a worker of a model is loading.
#[derive(Debug)]
pub(in crate::workers) struct Loading {
    registry: Arc<Registry>,
    model: String,
}

impl Drop for Loading {
    fn drop(&mut self) {
        let mut state = lock(&self.registry.state);
        if let Some(count) = state.loading.get_mut(&self.model) {
            *count -= 1;
            if *count == 0 {
                state.loading.remove(&self.model);
            }
        }
        drop(state);
        self.registry.changed();
    }
}
