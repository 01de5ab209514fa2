//! The router's part of the fleet: what it knows, and what waits to be shared.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use spectrie_proto::worker_v1::Learn;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::timeout_at;

use super::address::Address;
use super::entry::{MAX_NAMESPACE_BYTES, cut};
use super::generations::Generations;
use super::keys::ModelKey;
use super::records::origin::Origin;
use super::records::table::Streams;

use super::slices::Slices;
use super::wire::{StreamId, Trouble, Wire};
use crate::config::{FleetConfig, LimitsConfig};
use crate::error::RouterError;
use crate::metrics::Metrics;
use crate::sync::{lock, unix_time};

/// Texts that may wait to be shared; more are dropped.
const MAX_QUEUED: usize = 256;
/// How long an operator waits for the bus to forget.
const FORGET_TIME: Duration = Duration::from_secs(3);

/// Text that waits to be shared.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) model: ModelKey,
    pub(super) namespace: String,
    pub(super) generation: u64,
    pub(super) token_ids: Vec<u32>,
    /// The stream that it was learned from, if that is shared.
    pub(super) origin: Option<Origin>,
}

/// A model whose stream is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Followed {
    /// What was read last.
    pub(super) place: StreamId,
    pub(super) vocabulary_size: u32,
}

/// Whether Redis can be asked.
#[derive(Clone, Debug)]
pub(super) enum Link {
    /// It was not tried yet.
    Starting,
    Up(Wire),
    Down,
}

#[derive(Debug)]
pub(super) struct Shared {
    /// Of this router's life.
    pub(super) origin: u128,
    pub(super) address: Address,
    /// What is at the address in tests without sockets.
    #[cfg(test)]
    pub(super) server: Option<Arc<dyn super::connection::Server>>,
    /// Namespaces whose text stays here, with their parts.
    private: Vec<String>,
    pub(super) metrics: Arc<Metrics>,
    generations: Mutex<Generations>,
    /// Held while the file of generations is written, so that no older state replaces a newer one.
    saving: Arc<tokio::sync::Mutex<()>>,
    texts: mpsc::Sender<Queued>,
    /// Namespaces that operators are having forgotten.
    in_hand: Mutex<Vec<(ModelKey, String)>>,
    pub(super) followed: Mutex<BTreeMap<ModelKey, Followed>>,
    pub(super) link: watch::Sender<Link>,
    /// Rings when another stream is to be read.
    pub(super) has_followed: Notify,
    /// Rings when there is something to forget, or to say of it.
    pub(super) has_forgotten: Notify,
    /// Streams that others may take over.
    pub(super) streams: Streams,
    pub(super) slices: Mutex<Slices>,
    /// Rings when more of a limit is to be drawn.
    pub(super) has_spent: Notify,
    /// Counts the rounds of telling the bus what was forgotten.
    pub(super) tended: watch::Sender<u64>,
}

/// A router's part of the fleet; nothing where it is alone. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fleet(pub(super) Option<Arc<Shared>>);

/// What [`super::run`] takes from the queue.
#[derive(Debug)]
pub(crate) struct Texts(pub(super) mpsc::Receiver<Queued>);

impl Fleet {
    /// The part that a configuration asks for, and what waits to be shared. Generations are kept in
    /// `state_dir`.
    ///
    /// # Errors
    /// [`RouterError::Config`]: an address that cannot be read.
    pub(crate) fn new(
        config: &FleetConfig,
        limits: &LimitsConfig,
        state_dir: Option<&Path>,
        metrics: Arc<Metrics>,
    ) -> Result<(Self, Texts), RouterError> {
        let (texts, queued) = mpsc::channel(MAX_QUEUED);
        let Some(address) = &config.redis else {
            return Ok((Self::default(), Texts(queued)));
        };
        let shared = Shared {
            origin: rand::random(),
            address: Address::parse(address)?,
            #[cfg(test)]
            server: None,
            private: config.private_namespaces.clone(),
            metrics,
            generations: Mutex::new(Generations::open(state_dir)),
            saving: Arc::default(),
            texts,
            in_hand: Mutex::default(),
            followed: Mutex::default(),
            link: watch::Sender::new(Link::Starting),
            has_followed: Notify::new(),
            has_forgotten: Notify::new(),
            streams: Streams::new(limits),
            slices: Mutex::default(),
            has_spent: Notify::new(),
            tended: watch::Sender::new(0),
        };
        Ok((Self(Some(Arc::new(shared))), Texts(queued)))
    }

    /// Shares what a worker of this router learned from a stream, which is its `origin` if that is shared.
    pub(crate) fn publish(&self, model: &ModelKey, learn: Learn, origin: Option<Origin>) {
        let Some(shared) = &self.0 else { return };
        if shared.is_private(&learn.namespace) || learn.token_ids.is_empty() {
            return;
        }
        let generation = lock(&shared.generations).open_of(model, &learn.namespace);
        let Some(generation) = generation else {
            return shared.metrics.fleet.dropped("forgotten", 1);
        };
        if learn.namespace.len() > MAX_NAMESPACE_BYTES {
            return shared.metrics.fleet.dropped("too_long", 1);
        }
        let queued = Queued {
            model: model.clone(),
            namespace: learn.namespace,
            generation,
            token_ids: cut(learn.token_ids),
            origin,
        };
        if queued.origin.is_none() && shared.streams.pulse.is_doubtful() {
            // It may be a stream's that goes on, and is learned, at another router.
            return shared.metrics.fleet.dropped("lease", 1);
        }
        if shared.texts.try_send(queued).is_err() {
            shared.metrics.fleet.dropped("queue", 1);
        }
    }

    /// Begins to forget a namespace: text that its workers learned so far is shared no more. `None`
    /// where the router is alone.
    pub(crate) fn begin_forget(&self, model: &ModelKey, namespace: &str) -> Option<Forgetting> {
        let shared = self.0.clone()?;
        let mut generations = lock(&shared.generations);
        let generation = generations.next(model, namespace, now_ms());
        generations.rise(model, namespace, generation);
        drop(generations);
        let name = (model.clone(), namespace.to_owned());
        lock(&shared.in_hand).push(name.clone());
        shared.has_forgotten.notify_one();
        Some(Forgetting {
            shared,
            name,
            generation,
        })
    }

    /// Notes that all workers forgot what is older than `generation`, and waits until this is kept.
    pub(crate) async fn settle(&self, model: &ModelKey, namespace: &str, generation: u64) {
        if let Some(shared) = &self.0 {
            shared.clone().settle(model, namespace, generation).await;
        }
    }

    /// Notes that a worker may still hold a namespace that was forgotten: all are asked again.
    pub(crate) fn unsettle(&self, model: &ModelKey, namespace: &str) {
        if let Some(shared) = &self.0 {
            lock(&shared.generations).unsettle(model, namespace);
            shared.has_forgotten.notify_one();
        }
    }

    /// Reads a model's stream from now on, after `place`.
    pub(crate) fn follow(&self, model: &ModelKey, vocabulary_size: u32, place: Option<StreamId>) {
        let Some(shared) = &self.0 else { return };
        let followed = Followed {
            place: place.unwrap_or_default(),
            vocabulary_size,
        };
        lock(&shared.followed)
            .entry(model.clone())
            .or_insert(followed);
        shared.has_followed.notify_one();
    }
}

/// A namespace that an operator has forgotten, until it is dropped.
#[derive(Debug)]
pub(crate) struct Forgetting {
    shared: Arc<Shared>,
    name: (ModelKey, String),
    generation: u64,
}

impl Forgetting {
    /// The generation that workers are to forget.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Notes that all workers of this router forgot it, and waits until this is kept.
    pub(crate) async fn settle(&self) {
        let (model, namespace) = &self.name;
        let shared = self.shared.clone();
        shared.settle(model, namespace, self.generation).await;
    }

    /// Waits until the bus has forgotten it, too, or it is clear that it does not now; whether it
    /// has.
    pub(crate) async fn is_on_bus(&self, deadline: Instant) -> bool {
        let shared = &self.shared;
        let (model, namespace) = &self.name;
        let deadline = deadline.min(Instant::now() + FORGET_TIME);
        let mut rounds = shared.tended.subscribe();
        let is_announced = || {
            let generations = lock(&shared.generations);
            generations.is_announced(model, namespace, self.generation)
        };
        let is_down = || matches!(*shared.link.borrow(), Link::Down);
        let announced =
            async { while !is_announced() && !is_down() && rounds.changed().await.is_ok() {} };
        let _ = timeout_at(deadline.into(), announced).await;
        is_announced()
    }
}

impl Drop for Forgetting {
    fn drop(&mut self) {
        let mut in_hand = lock(&self.shared.in_hand);
        if let Some(place) = in_hand.iter().position(|name| *name == self.name) {
            in_hand.swap_remove(place);
        }
        drop(in_hand);
        // Workers that did not forget are asked again.
        self.shared.has_forgotten.notify_one();
    }
}

impl Shared {
    /// A new connection.
    pub(super) async fn connect(&self) -> Result<Wire, Trouble> {
        #[cfg(test)]
        if let Some(server) = &self.server {
            return Ok(Wire::simulated(server.connect().await?));
        }
        Wire::connect(&self.address).await
    }

    /// Whether an operator's own call has workers forget a namespace.
    pub(super) fn is_in_hand(&self, model: &ModelKey, namespace: &str) -> bool {
        let in_hand = lock(&self.in_hand);
        in_hand
            .iter()
            .any(|(of, name)| of == model && name == namespace)
    }

    /// Whether a namespace, or the one that it is part of, stays off the bus.
    pub(super) fn is_private(&self, namespace: &str) -> bool {
        self.private.iter().any(|name| {
            let rest = namespace.strip_prefix(&**name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }

    /// Looks at the generations, or changes them.
    pub(super) fn with_generations<T>(&self, look: impl FnOnce(&mut Generations) -> T) -> T {
        look(&mut lock(&self.generations))
    }

    /// As [`Fleet::settle`].
    pub(super) async fn settle(
        self: Arc<Self>,
        model: &ModelKey,
        namespace: &str,
        generation: u64,
    ) {
        if !lock(&self.generations).settle(model, namespace, generation) {
            return;
        }
        let turn = self.saving.clone().lock_owned().await;
        let save = move || {
            // The lock is not held while the disk is waited for.
            let to_save = lock(&self.generations).to_save();
            if let Some(to_save) = to_save {
                to_save.write();
            }
            drop(turn);
        };
        if let Err(error) = tokio::task::spawn_blocking(save).await {
            tracing::error!(%error, "what was forgotten could not be written");
        }
    }
}

/// Milliseconds of Unix time.
pub(super) fn now_ms() -> u64 {
    unix_time().as_millis() as u64
}
