//! Taking a worker that fails requests out of placing, and back in.

use std::sync::Arc;

use super::Registry;
use crate::metrics::Metrics;
use crate::sync::now;
use crate::workers::worker::Worker;

/// Notes that a worker failed a choice of that turn that another one went on with. One that does so
/// again and again gets nothing for a while, unless it is the last of its model.
pub(crate) fn failed(registry: &Registry, metrics: &Metrics, worker: &Arc<Worker>, turn: u64) {
    let now = now();
    let model = &worker.hello.model;
    let Ok((_, workers)) = registry.workers(Some(model)) else {
        return;
    };
    // It is of no use to eject one that is gone.
    if !workers.iter().any(|one| one.id == worker.id) {
        return;
    }
    let is_other =
        |one: &Arc<Worker>| one.id != worker.id && !one.is_draining() && !one.is_ejected(now);
    let may_eject = workers.iter().any(is_other);
    if let Some(pause) = worker.failed(turn, now, may_eject) {
        tracing::warn!(worker = %worker.id, %model, seconds = pause.as_secs_f64(),
            "worker ejected: it fails what others can run");
        metrics.worker_ejected(model, &worker.id, Some(now + pause));
    }
}

/// Notes that a worker completed an answer of that turn.
pub(crate) fn answered(metrics: &Metrics, worker: &Worker, turn: u64) {
    if worker.answered(turn) {
        let model = &worker.hello.model;
        tracing::info!(worker = %worker.id, %model, "worker is back: it answered a probe");
        metrics.worker_ejected(model, &worker.id, None);
    }
}
