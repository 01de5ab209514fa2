//! A router and its workers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::network::SimWorker;
use crate::config::{LimitsConfig, RouterConfig};
use crate::fleet::Fleet;
use crate::generation::Generation;
use crate::metrics::Metrics;
use crate::sync::lock;
use crate::workers::Registry;

/// Longer than any schedule.
const FOREVER: Duration = Duration::from_secs(10_000_000);

/// A router, its workers, and what it sent to them.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) registry: Arc<Registry>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) fleet: Fleet,
    pub(super) generation: Generation,
    pub(super) workers: Vec<SimWorker>,
    /// Lost workers whose last outputs are on their way.
    pub(super) gone: Vec<SimWorker>,
    /// The last attempt that its workers heard of, by choice.
    pub(super) attempts: BTreeMap<String, u32>,
}

/// Limits that no schedule meets; a stream can be gone on with for this time.
pub(super) fn limits(resume_window_s: f64) -> LimitsConfig {
    LimitsConfig {
        max_queued: Some(1_000),
        default_deadline_s: FOREVER.as_secs_f64(),
        max_deadline_s: FOREVER.as_secs_f64(),
        client_stall_timeout_s: FOREVER.as_secs_f64(),
        resume_window_s,
        ..LimitsConfig::default()
    }
}

impl Site {
    /// A router without workers.
    pub(super) fn new(limits: LimitsConfig, metrics: Arc<Metrics>, fleet: Fleet) -> Self {
        let registry = Arc::new(Registry::new(FOREVER, &limits));
        let mut config = RouterConfig {
            limits,
            ..RouterConfig::default()
        };
        config.workers.wait_s = FOREVER.as_secs_f64();
        let generation = Generation::new(
            registry.clone(),
            metrics.clone(),
            Arc::new(config),
            fleet.clone(),
        );
        Self {
            registry,
            metrics,
            fleet,
            generation,
            workers: Vec::new(),
            gone: Vec::new(),
            attempts: BTreeMap::new(),
        }
    }

    /// Tokens that it counted.
    pub(super) fn num_counted(&self) -> u64 {
        self.metrics.of_model("m").generated.get()
    }

    /// Whether a request waits for its first worker. At most one does: several wake in an order that the
    /// seed does not decide.
    pub(super) fn is_waited_for(&self) -> bool {
        self.generation.shared.waiting.len() > 0
    }

    /// # Errors
    /// What is left of its streams, now that all have ended.
    pub(super) fn check_tables(&self, num_requests: usize) -> Result<(), String> {
        let shared = &self.generation.shared;
        let held: usize = self
            .workers
            .iter()
            .map(|worker| worker.worker.num_choices())
            .sum();
        let left = (
            held,
            self.registry.num_parked(),
            shared.live.len(),
            shared.waiting.len(),
            shared.running.len(),
        );
        let num_convicts = lock(&shared.convicts).len();
        let num_records = lock(&shared.records).len();
        if left != (0, 0, 0, 0, 0) || num_convicts.max(num_records) > num_requests {
            return Err(format!(
                "left in the tables: {left:?}, {num_convicts}, {num_records}"
            ));
        }
        Ok(())
    }
}
