//! The workers of this router, as those whom the fleet teaches.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, join_all};
use spectrie_proto::worker_v1::admin_call::Call;
use spectrie_proto::worker_v1::admin_reply::Reply;
use spectrie_proto::worker_v1::{Learn, ListNamespaces};
use tokio::time::timeout_at;

use super::{Broadcast, forget_call, has_forgotten, read, wait_for};
use crate::fleet::{ModelKey, Place, Pupils};
use crate::workers::model::ServedModel;
use crate::workers::worker::Worker;

/// How long workers may take to forget what another router forgot.
const FORGET_TIME: Duration = Duration::from_secs(20);
/// How long a worker that joins may take to forget and to learn, before it is ready.
const WARM_TIME: Duration = Duration::from_secs(5);

impl Pupils for Broadcast {
    fn teach(&self, model: &ModelKey, learn: &Learn) -> usize {
        let workers = self.registry.workers_of_key(model);
        let lag = |worker: &&Arc<Worker>| !worker.learn(learn.clone());
        workers.iter().filter(lag).count()
    }

    fn forget<'a>(&'a self, model: &'a ModelKey, namespace: &'a str) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let workers = self.registry.workers_of_key(model);
            let deadline = Instant::now() + FORGET_TIME;
            let answers = self.forget_at(&workers, namespace, deadline).await;
            !answers.is_empty() && answers.iter().all(|answer| has_forgotten(&answer.result))
        })
    }
}

impl Broadcast {
    /// Whether a worker of the model is here.
    pub(crate) fn serves(&self, model: &ModelKey) -> bool {
        !self.registry.workers_of_key(model).is_empty()
    }

    /// Brings a worker that is about to join to what the fleet forgot and learned; gives the place
    /// in the model's stream that it knows. Returns at once where the router is alone, and soon
    /// whatever the worker or the bus does.
    pub(crate) async fn warm(&self, model: &ServedModel, worker: &Worker) -> Option<Place> {
        let key = model.fleet_key();
        let greeting = self.fleet.greeting(&key, model.vocabulary_size).await;
        let deadline = Instant::now() + WARM_TIME;
        let asked = greeting.forgotten.iter().map(|(name, generation)| async {
            let answer = wait_for(worker.ask(forget_call(name)), deadline).await;
            if !has_forgotten(&answer) {
                self.fleet.unsettle(&key, name);
            } else if self.registry.workers_of_key(&key).is_empty() {
                self.fleet.settle(&key, name, *generation).await;
            }
        });
        join_all(asked).await;
        if !greeting.texts.is_empty() {
            // A worker that is busy with it joins all the same.
            let _ = timeout_at(deadline.into(), teach(worker, greeting.texts)).await;
        }
        greeting.place
    }

    /// Teaches workers of a model from now on what others learned after `place`.
    pub(crate) fn follow(&self, model: &ServedModel, place: Option<Place>) {
        self.fleet
            .follow(&model.fleet_key(), model.vocabulary_size, place);
    }
}

/// Passes texts on, those of namespaces of which the worker brings as much as there is left out,
/// and waits until they have arrived.
async fn teach(worker: &Worker, texts: Vec<Learn>) {
    let list = || Call::ListNamespaces(ListNamespaces {});
    let held: BTreeMap<_, _> = match read(Ok(worker.ask(list()).await)) {
        Ok(Reply::Namespaces(list)) => {
            let held = list.namespaces.into_iter();
            held.map(|one| (one.name, one.num_tokens)).collect()
        }
        _ => BTreeMap::new(),
    };
    let mut offered = BTreeMap::<String, u64>::new();
    for text in &texts {
        *offered.entry(text.namespace.clone()).or_default() += text.token_ids.len() as u64;
    }
    for text in texts {
        if held.get(&text.namespace) < offered.get(&text.namespace) {
            worker.learn_when_room(text).await;
        }
    }
    let _ = worker.ask_after_learnt(list()).await.await;
}
