//! Which models are served, by which workers, and where the next choice goes.

mod abilities;
pub(crate) mod ejection;
mod learned;
mod loading;
mod state;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use spectrie_proto::v1;
use spectrie_proto::worker_v1::{Hello, RequestOutput};
use tokio::sync::{oneshot, watch};
use tonic::Status;

use super::model::ServedModel;
use super::parked::Parked;
use super::placing::{Admission, Order, Placer, Refusal, Room};
use super::worker::{ChoiceGuard, Dispatch, Worker};
use crate::config::LimitsConfig;
use crate::failover::{Candidate, Need, choose};
use crate::fleet::ModelKey;
use crate::sync::{lock, now};

use state::{Entry, State};

pub(super) use loading::Loading;

/// All that have joined.
#[derive(Debug)]
pub(crate) struct Registry {
    state: Mutex<State>,
    changes: watch::Sender<u64>,
    /// A worker lost less long ago than this is expected back.
    return_time: Duration,
    admission: Admission,
}

impl Registry {
    pub(crate) fn new(return_time: Duration, limits: &LimitsConfig) -> Self {
        let changes = watch::Sender::new(0);
        Self {
            state: Mutex::default(),
            changes,
            return_time,
            admission: Admission::new(limits),
        }
    }

    /// Rings after each worker that joins, leaves or begins to load.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn changed(&self) {
        self.changes.send_modify(|version| *version += 1);
    }

    /// A worker's model, if it is known: its tokenizer need not be built again.
    pub(crate) fn known_model(&self, hello: &Hello, digest: &str) -> Option<Arc<ServedModel>> {
        let state = lock(&self.state);
        let entry = state.models.get(&hello.model)?;
        let is_same = entry.is_of(&hello.model_hash, digest);
        is_same.then(|| entry.model.clone())
    }

    /// Adds a ready worker.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` when others serve a different model under the same name.
    pub(crate) fn join(&self, model: Arc<ServedModel>, worker: Arc<Worker>) -> Result<(), Status> {
        let mut state = lock(&self.state);
        let entry = state
            .models
            .entry(model.name.clone())
            .or_insert_with(|| Entry {
                model: model.clone(),
                workers: Vec::new(),
                max_context: 0,
                lost_at: None,
                parked: Parked::default(),
                placer: Placer::default(),
            });
        if !entry.is_of(&model.model_hash, &model.digest) {
            if !entry.workers.is_empty() {
                return Err(Status::failed_precondition(format!(
                    "model {:?} is served with hash {}, this worker has {}: give it another \
                     served name, or stop the other workers first",
                    model.name, entry.model.model_hash, model.model_hash
                )));
            }
            entry.model = model;
            entry.max_context = 0;
            entry.parked.abandon();
        }
        entry.placer.joined(&worker.id, worker.cache_tokens());
        entry.max_context = entry.max_context.max(worker.max_context());
        entry.workers.push(worker);
        entry.settle();
        drop(state);
        self.changed();
        Ok(())
    }

    /// Gives a worker no choices from now on.
    pub(crate) fn begin_drain(&self, worker: &Worker) {
        worker.begin_drain();
        self.changed();
    }

    /// Removes a worker that was lost.
    pub(crate) fn leave(&self, worker: &Worker) {
        if let Some(entry) = lock(&self.state).models.get_mut(&worker.hello.model) {
            let before = entry.workers.len();
            entry.workers.retain(|other| other.id != worker.id);
            entry.placer.left(&worker.id);
            if entry.workers.is_empty() && before > 0 {
                entry.lost_at = Some(now());
            }
            entry.settle();
        }
        self.changed();
    }

    /// Finds a model, by name or as the only one, and its longest context on any ready worker.
    pub(crate) fn find(&self, name: Option<&str>) -> Result<(Arc<ServedModel>, u32), Refusal> {
        let state = lock(&self.state);
        let entry = self.entry(&state, name)?;
        let longest = entry
            .workers
            .iter()
            .map(|worker| worker.max_context())
            .max();
        Ok((entry.model.clone(), longest.unwrap_or(0)))
    }

    /// Whether requests of a model are placed by what their prompts begin with.
    pub(crate) fn places_by_prefix(&self, model: &str) -> bool {
        let state = lock(&self.state);
        let entry = state.models.get(model);
        entry.is_some_and(|entry| entry.placer.is_shared())
    }

    /// Most choices of a model in flight at once, also for a tenant that is alone.
    pub(crate) fn limit(&self, name: Option<&str>) -> Result<usize, Refusal> {
        let state = lock(&self.state);
        let entry = self.entry(&state, name)?;
        Ok(self.admission.limit(&entry.workers))
    }

    /// How a tenant stands among those that have choices of a model in flight or waiting for a worker;
    /// none of a model that never was here.
    pub(crate) fn room(&self, name: &str, tenant: &str) -> Option<Room> {
        let state = lock(&self.state);
        let entry = state.models.get(name)?;
        Some(
            self.admission
                .room(&entry.workers, entry.parked.tenants(), tenant),
        )
    }

    /// Name and ready workers of a model, named or the only one.
    pub(crate) fn workers(
        &self,
        name: Option<&str>,
    ) -> Result<(String, Vec<Arc<Worker>>), Refusal> {
        let state = lock(&self.state);
        let entry = self.entry(&state, name)?;
        Ok((entry.model.name.clone(), entry.workers.clone()))
    }

    fn entry<'a>(&self, state: &'a State, name: Option<&str>) -> Result<&'a Entry, Refusal> {
        let entry = match name {
            Some(name) => state.models.get(name).ok_or_else(|| state.absent(name))?,
            None => state.only_model()?,
        };
        if entry.workers.is_empty() {
            let recent = entry
                .lost_at
                .is_some_and(|at| now() < at + self.return_time);
            let coming = recent || state.loading.contains_key(&entry.model.name);
            return Err(if coming {
                Refusal::Coming
            } else {
                Refusal::NoWorker
            });
        }
        Ok(entry)
    }

    /// Sends choices to a worker of `model`, as [`Placer`] says, all to one: they share a prompt.
    ///
    /// `choices` is asked once a worker is chosen. Where other weights are served under the model's name by now
    /// there is no worker: the prompt's ids are of its own tokenizer.
    ///
    /// # Errors
    /// Why no worker took them; none of them runs then.
    pub(crate) fn dispatch(
        &self,
        model: &ServedModel,
        order: &Order<'_>,
        choices: impl FnOnce() -> Vec<Dispatch>,
    ) -> Result<Vec<ChoiceGuard>, Refusal> {
        let mut state = lock(&self.state);
        let entry = self.entry(&state, Some(order.model))?;
        if entry.workers.iter().all(|worker| worker.is_draining()) {
            return Err(Refusal::Coming);
        }
        self.admission.admit(&entry.workers, order)?;
        let Some(entry) = state.serving(model) else {
            return Err(Refusal::NoWorker);
        };
        let workers = &entry.workers;
        let candidates: Vec<_> = workers.iter().map(|worker| worker.candidate()).collect();
        let need = Need {
            context: order.needs_context,
            ..Need::default()
        };
        let cleared = entry.parked.cleared();
        let is_open =
            |one: &Candidate<'_>| choose(std::slice::from_ref(one), &need, cleared).is_some();
        let Some(place) = entry.placer.place(&candidates, is_open, order) else {
            let fits = |candidate: &Candidate<'_>| candidate.max_context >= need.context;
            // One that fits runs, or waits to run, a choice that must be alone.
            let is_coming = candidates.iter().any(fits);
            return Err(if is_coming {
                Refusal::Coming
            } else {
                Refusal::NoWorker
            });
        };
        let worker = &workers[place];
        // A worker lost a moment ago is about to leave: its change ends the caller's wait.
        let choices = choices().into_iter().map(Box::new);
        let sent = choices.map(|choice| worker.dispatch(choice));
        let guards = sent
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| Refusal::Coming)?;
        entry.placer.placed(&worker.id, order);
        Ok(guards)
    }

    /// Sends a choice that lost its worker to another of `model`, at once or as soon as one may
    /// take it, however many choices are in flight. Dropping what this gives ends the wait, or
    /// cancels the choice; it is closed when other weights are served under the model's name.
    pub(crate) fn resume(
        &self,
        model: &ServedModel,
        need: Need,
        dispatch: Dispatch,
    ) -> oneshot::Receiver<ChoiceGuard> {
        let mut state = lock(&self.state);
        let Some(entry) = state.serving(model) else {
            return oneshot::channel().1;
        };
        let placed = entry.parked.push(need, dispatch);
        entry.settle();
        placed
    }

    /// Forgets which worker knows text of a namespace, once the workers have forgotten it.
    pub(crate) fn forget_namespace(&self, model: &str, namespace: &str) {
        if let Some(entry) = lock(&self.state).models.get_mut(model) {
            entry.placer.forget_namespace(namespace);
        }
    }

    /// Sends the choices that wait, after a worker became free for them.
    pub(crate) fn settle(&self) {
        for entry in lock(&self.state).models.values_mut() {
            entry.settle();
        }
        self.changed();
    }

    /// Hands a step's outputs to their streams.
    pub(crate) fn deliver(&self, worker: &Worker, outputs: Vec<RequestOutput>) {
        if worker.deliver(outputs) {
            self.settle();
        }
    }

    /// Choices that wait for a worker.
    #[cfg(test)]
    pub(crate) fn num_parked(&self) -> usize {
        let state = lock(&self.state);
        state.models.values().map(|entry| entry.parked.len()).sum()
    }

    /// The workers of a model, whatever names it is served by.
    pub(crate) fn workers_of_key(&self, key: &ModelKey) -> Vec<Arc<Worker>> {
        let state = lock(&self.state);
        let models = state.models.values();
        let entries = models.filter(|entry| entry.model.fleet_key() == *key);
        entries.flat_map(|entry| entry.workers.clone()).collect()
    }

    /// Whether any model has a ready worker.
    pub(crate) fn is_ready(&self) -> bool {
        lock(&self.state)
            .models
            .values()
            .any(|entry| entry.workers.iter().any(|worker| !worker.is_draining()))
    }

    /// The workers that have joined, by model, those that drain too.
    pub(crate) fn all_workers(&self) -> Vec<Arc<Worker>> {
        let state = lock(&self.state);
        let workers = state.models.values().flat_map(|entry| &entry.workers);
        workers.cloned().collect()
    }

    /// The models that have a ready worker.
    pub(crate) fn models(&self) -> Vec<v1::Model> {
        let state = lock(&self.state);
        let served = state
            .models
            .values()
            .filter(|entry| !entry.workers.is_empty());
        served
            .map(|entry| {
                let contexts = entry.workers.iter().map(|worker| worker.max_context());
                let fingerprint = entry.workers.first().map(|worker| &worker.hello);
                v1::Model {
                    name: entry.model.name.clone(),
                    max_context: contexts.max().unwrap_or(0),
                    vocabulary_size: entry.model.vocabulary_size,
                    workers: entry.workers.len() as u32,
                    numeric_fingerprint: fingerprint
                        .map(|hello| hello.numeric_fingerprint.clone())
                        .unwrap_or_default(),
                }
            })
            .collect()
    }
}
