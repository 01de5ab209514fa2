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
use crate::failover::Record;
use crate::fleet::{self, Fleet, Gone, ModelKey, Pupils};
use crate::generation::Generation;
use crate::metrics::Metrics;
use crate::sync::{lock, now};

/// How long a stream can be gone on with, in seconds: longer than any client is away.
pub(super) const WINDOW_S: f64 = 20.0;

/// A router's process.
#[derive(Debug)]
pub(super) struct Router {
    pub(super) gate: Gate,
    pub(super) line: Arc<Line>,
    pub(super) pupils: Arc<Taught>,
    running: JoinHandle<Option<()>>,
    closing: CancellationToken,
    /// Until when it lets its streams end.
    pub(super) drains_until: Option<Instant>,
    /// When it is over, once it has nothing more to do but to say so.
    pub(super) closes_by: Option<Instant>,
    /// Until when it stands still.
    pub(super) stands_until: Option<Instant>,
    /// When it died, and what it had counted.
    pub(super) died: Option<(Instant, u64)>,
    /// When it last was without Redis, or stood still.
    pub(super) could_not_write: Option<Instant>,
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

    fn left(&self, tenant: Option<&str>, id: &str, owner: &str) -> Option<Record> {
        self.generation.left(tenant, id, owner)
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
    let closing = CancellationToken::new();
    let all = fleet::run(fleet, texts, pupils.clone(), closing.clone());
    let running = tokio::spawn(gate.pass(all));
    let router = Router {
        gate,
        line,
        pupils,
        running,
        closing,
        drains_until: None,
        closes_by: None,
        stands_until: None,
        died: None,
        could_not_write: None,
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

    /// It takes no new streams, and ends with those that it has, or at a time.
    pub(super) fn drain(&mut self, until: Instant, generation: Generation) {
        self.drains_until = Some(until);
        tokio::spawn(self.gate.pass(async move { generation.drain().await }));
    }

    /// It says that it ends.
    pub(super) fn close(&mut self, by: Instant) {
        self.closes_by = Some(by);
        self.closing.cancel();
    }

    /// Whether it has said so, or has no more time for it.
    pub(super) fn is_closed(&self) -> bool {
        let by = self.closes_by;
        by.is_some_and(|by| self.running.is_finished() || by <= now())
    }

    /// Its process is gone, with all that it had.
    pub(super) fn die(&mut self, now: Instant, num_counted: u64) {
        self.died = Some((now, num_counted));
        self.line.cut(std::time::Duration::from_secs(1_000_000));
        self.gate.end();
        self.running.abort();
    }
}
