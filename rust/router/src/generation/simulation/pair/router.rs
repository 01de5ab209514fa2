//! A router's process: what runs in it beside its requests, and what happens to it.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use futures_util::future::BoxFuture;
use spectrie_proto::worker_v1::Learn;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::super::model::served;
use super::super::site::{Site, limits};
use super::gate::Gate;
use super::line::{Dialer, Line};
use super::redis::Redis;
use crate::fleet::{self, Fleet, Gone, ModelKey, Pupils};
use crate::generation::Generation;
use crate::metrics::Metrics;
use crate::sync::lock;

/// How long a stream can be gone on with, in seconds: longer than any client is away.
pub(super) const WINDOW_S: f64 = 20.0;

/// A router's process.
#[derive(Debug)]
pub(super) struct Router {
    pub(super) gate: Gate,
    pub(super) line: Arc<Line>,
    pub(super) pupils: Arc<Taught>,
    running: JoinHandle<Option<()>>,
    /// Until when it stands still.
    pub(super) stands_until: Option<Instant>,
    /// When it died, and what it had counted.
    pub(super) died: Option<(Instant, u64)>,
    /// When it last was without Redis.
    pub(super) was_cut: Option<Instant>,
}

/// What its workers were taught by other routers.
#[derive(Debug)]
pub(super) struct Taught {
    generation: Generation,
    pub(super) texts: Mutex<Vec<Vec<u32>>>,
}

impl Pupils for Taught {
    fn teach(&self, _: &ModelKey, learn: &Learn) -> usize {
        lock(&self.texts).push(learn.token_ids.clone());
        0
    }

    fn forget<'a>(&'a self, _: &'a ModelKey, _: &'a str, _: u64) -> BoxFuture<'a, bool> {
        Box::pin(std::future::ready(false))
    }

    fn end_stream(&self, tenant: Option<&str>, id: &str, why: Gone) {
        tracing::debug!(id, ?why, "a router ends a stream");
        self.generation.end_stream(tenant, id, why);
    }
}

/// A router that begins, with what others see of it.
pub(super) fn begin(redis: &Arc<Redis>, seed: u64) -> (Site, Router) {
    let limits = limits(WINDOW_S);
    let metrics = Arc::new(Metrics::new());
    let line = Arc::new(Line::new(redis.clone(), seed));
    let life = u128::from(seed) << 64 | u128::from(super::super::dice::mix(seed));
    let dialer = Arc::new(Dialer(line.clone()));
    let (fleet, texts) = Fleet::simulated(dialer, life, &limits, metrics.clone());
    let site = Site::new(limits, metrics, fleet.clone());
    let pupils = Arc::new(Taught {
        generation: site.generation.clone(),
        texts: Mutex::default(),
    });
    let model = served();
    fleet.follow(&model.fleet_key(), model.vocabulary_size, None);
    let gate = Gate::default();
    let all = fleet::run(fleet, texts, pupils.clone(), CancellationToken::new());
    let running = tokio::spawn(gate.pass(all));
    let router = Router {
        gate,
        line,
        pupils,
        running,
        stands_until: None,
        died: None,
        was_cut: None,
    };
    (site, router)
}

impl Router {
    pub(super) fn lives(&self) -> bool {
        self.died.is_none()
    }

    /// Whether it lives and does not stand still.
    pub(super) fn runs(&self) -> bool {
        self.lives() && self.gate.is_open()
    }

    /// Its process is gone, with all that it had.
    pub(super) fn die(&mut self, now: Instant, num_counted: u64) {
        self.died = Some((now, num_counted));
        self.line.cut(std::time::Duration::from_secs(1_000_000));
        self.gate.end();
        self.running.abort();
    }
}
