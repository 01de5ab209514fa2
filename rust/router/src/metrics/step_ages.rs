//! How long ago each worker last stepped: what shows one that hangs.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use spectrie_proto::worker_v1::Load;

use super::labels::{WorkerLabels, worker_labels};
use super::table::Registrar;
use crate::sync::lock;

/// When a worker last stepped.
#[derive(Clone, Copy, Debug)]
struct LastStep {
    steps: u64,
    at: Instant,
    busy: bool,
}

/// The ages, found when they are asked for.
#[derive(Debug)]
pub(super) struct StepAges {
    ages: Family<WorkerLabels, Gauge<f64, AtomicU64>>,
    steps: Mutex<BTreeMap<(String, String), LastStep>>,
}

impl StepAges {
    pub(super) fn new(all: &mut Registrar) -> Self {
        Self {
            ages: all.add("worker_last_step_age_seconds", Family::default()),
            steps: Mutex::default(),
        }
    }

    /// Takes a worker's load of `now`.
    pub(super) fn load(&self, model: &str, worker: &str, load: &Load, now: Instant) {
        let busy = load.running + load.waiting > 0;
        let now = LastStep {
            steps: load.steps,
            at: now,
            busy,
        };
        let mut steps = lock(&self.steps);
        let last = steps
            .entry((model.to_owned(), worker.to_owned()))
            .or_insert(now);
        if last.steps == now.steps && last.busy {
            last.busy = busy;
        } else {
            *last = now;
        }
    }

    pub(super) fn worker_left(&self, model: &str, worker: &str) {
        let mut steps = lock(&self.steps);
        steps.remove(&(model.to_owned(), worker.to_owned()));
        self.ages.remove(&worker_labels(model, worker));
    }

    /// Brings the series to what holds `now`.
    pub(super) fn refresh(&self, now: Instant) {
        for ((model, worker), last) in lock(&self.steps).iter() {
            let age = if last.busy {
                now.saturating_duration_since(last.at).as_secs_f64()
            } else {
                0.0
            };
            self.ages
                .get_or_create(&worker_labels(model, worker))
                .set(age);
        }
    }
}
