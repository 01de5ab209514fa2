//! The workers of this router, as those whom the fleet teaches.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, join_all};
use spectrie_proto::worker_v1::admin_call::Call;
use spectrie_proto::worker_v1::admin_reply::Reply;
use spectrie_proto::worker_v1::{Learn, ListNamespaces};
use tokio::time::timeout_at;

use super::{Broadcast, ask_all, forget_again, forget_call, has_forgotten, read, wait_for};
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

    fn forget<'a>(
        &'a self,
        model: &'a ModelKey,
        namespace: &'a str,
        generation: u64,
    ) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let workers = self.registry.workers_of_key(model);
            let has_yet_to = |worker: &&Arc<Worker>| !worker.has_confirmed(namespace, generation);
            let late: Vec<_> = workers.iter().filter(has_yet_to).cloned().collect();
            let now = Instant::now();
            let call = forget_call(namespace);
            let answers = ask_all(&late, &call, now + FORGET_TIME / 2).await;
            let have_forgotten = answers.iter().map(|answer| has_forgotten(&answer.result));
            for (worker, _) in late
                .iter()
                .zip(have_forgotten.clone())
                .filter(|(_, has)| *has)
            {
                worker.confirm(namespace, generation);
            }
            // Not asked again before all have: what they have learned meanwhile would be lost again
            // and again.
            if !have_forgotten.clone().all(|has_forgotten| has_forgotten) {
                return false;
            }
            // What the late ones taught them until then goes.
            let again = workers.iter().map(|worker| async move {
                worker.retract(namespace);
                let generation = Some(generation);
                let result = forget_again(worker, namespace, generation, now + FORGET_TIME).await;
                has_forgotten(&result)
            });
            let have_forgotten = join_all(again).await;
            self.forget_places(&workers, namespace);
            !workers.is_empty()
                && have_forgotten
                    .into_iter()
                    .all(|has_forgotten| has_forgotten)
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
                return;
            }
            worker.confirm(name, *generation);
            if self.registry.workers_of_key(&key).is_empty() {
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

    /// Has a worker that joined forget what was forgotten while it did: whoever had the others
    /// forget it did not know of this one.
    pub(crate) async fn catch_up(&self, model: &ModelKey, worker: &Worker) {
        let deadline = Instant::now() + FORGET_TIME;
        let mut forgotten = self.fleet.forgotten(model);
        forgotten.retain(|(name, generation)| !worker.has_confirmed(name, *generation));
        let asked = forgotten.iter().map(|(name, generation)| async {
            let answer = wait_for(worker.ask(forget_call(name)), deadline).await;
            if has_forgotten(&answer) {
                worker.confirm(name, *generation);
            } else {
                self.fleet.unsettle(model, name);
            }
        });
        join_all(asked).await;
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
