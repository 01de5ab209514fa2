//! The models that are served and the workers of each, as the registry's lock holds them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use super::super::model::ServedModel;
use super::super::parked::Parked;
use super::super::placing::{Placer, Refusal};
use super::super::worker::Worker;

/// A model and the workers that are ready to run it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) model: Arc<ServedModel>,
    pub(super) workers: Vec<Arc<Worker>>,
    /// The longest of a worker that was here.
    pub(super) max_context: u32,
    /// When its last worker went.
    pub(super) lost_at: Option<Instant>,
    /// Choices that lost their worker and wait for another.
    pub(super) parked: Parked,
    pub(super) placer: Placer,
}

impl Entry {
    /// Whether it serves the weights and files of these hashes.
    pub(super) fn is_of(&self, model_hash: &str, digest: &str) -> bool {
        self.model.model_hash == model_hash && self.model.digest == digest
    }

    /// Sends the waiting choices that a worker may take.
    pub(super) fn settle(&mut self) {
        self.parked.settle(&self.workers);
    }
}

/// The models by name, and the workers that come.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) models: BTreeMap<String, Entry>,
    /// Workers that said hello and are not ready, by model.
    pub(super) loading: BTreeMap<String, usize>,
}

impl State {
    fn served(&self) -> Vec<String> {
        self.models.keys().cloned().collect()
    }

    /// The entry of a model, unless other weights are served under its name.
    pub(super) fn serving(&mut self, model: &ServedModel) -> Option<&mut Entry> {
        let entry = self.models.get_mut(&model.name)?;
        entry
            .is_of(&model.model_hash, &model.digest)
            .then_some(entry)
    }

    /// Why there is no model of this name.
    pub(super) fn absent(&self, name: &str) -> Refusal {
        if self.loading.contains_key(name) {
            return Refusal::Coming;
        }
        match (self.models.is_empty(), self.loading.is_empty()) {
            (false, _) => Refusal::Unknown(self.served()),
            (true, false) => Refusal::Unknown(self.loading.keys().cloned().collect()),
            (true, true) => Refusal::NoWorker,
        }
    }

    /// The model of a request that names none.
    pub(super) fn only_model(&self) -> Result<&Entry, Refusal> {
        let mut entries = self.models.values();
        match (entries.next(), entries.next()) {
            (Some(entry), None) => Ok(entry),
            (Some(_), Some(_)) => Err(Refusal::Ambiguous(self.served())),
            (None, _) if self.loading.is_empty() => Err(Refusal::NoWorker),
            (None, _) => Err(Refusal::Coming),
        }
    }
}
