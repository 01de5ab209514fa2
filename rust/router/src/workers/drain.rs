//! Taking a worker out of service.

use std::sync::Arc;
use std::time::{Duration, Instant};

use spectrie_proto::worker_v1::{Drain, router_message::Message};

use super::registry::Registry;
use super::worker::Worker;

/// A worker that drained to its end.
#[derive(Debug)]
pub(crate) struct Drained {
    /// Its id.
    pub(crate) worker: String,
    /// Choices that it still ran.
    pub(crate) handed_over: usize,
}

/// Why a drain has not come to its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Undrained {
    /// There is none of this name; these are there.
    Unknown(Vec<String>),
    /// It drains, and still runs so many choices.
    Still { worker: String, choices: usize },
}

/// Has the worker of this id or process id drain, and waits for its end.
///
/// # Errors
/// There is no such worker, or `deadline` came first: the drain goes on.
pub(crate) async fn drain(
    registry: &Registry,
    name: &str,
    grace: Option<Duration>,
    deadline: Instant,
) -> Result<Drained, Undrained> {
    let mut changes = registry.changes();
    let worker = find(registry, name)?;
    tracing::info!(worker = %worker.id, choices = worker.num_choices(), "worker is to drain");
    registry.begin_drain(&worker);
    worker.order(Message::Drain(Drain {
        grace_ms: grace.map(|grace| u64::try_from(grace.as_millis()).unwrap_or(u64::MAX)),
    }));
    loop {
        changes.mark_unchanged();
        if !registry.all_workers().iter().any(|one| one.id == worker.id) {
            return Ok(Drained {
                worker: worker.id.clone(),
                handed_over: worker.num_left(),
            });
        }
        let changed = tokio::time::timeout_at(deadline.into(), changes.changed()).await;
        if !matches!(changed, Ok(Ok(()))) {
            return Err(Undrained::Still {
                worker: worker.id.clone(),
                choices: worker.num_choices(),
            });
        }
    }
}

fn find(registry: &Registry, name: &str) -> Result<Arc<Worker>, Undrained> {
    let workers = registry.all_workers();
    let is_it =
        |worker: &&Arc<Worker>| worker.id == name || worker.hello.process_id.to_string() == name;
    let found = workers.iter().find(is_it).cloned();
    let names = || workers.iter().map(|worker| worker.id.clone()).collect();
    found.ok_or_else(|| Undrained::Unknown(names()))
}
