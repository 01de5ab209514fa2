//! What all requests share.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::blocking::TextPool;
use super::live::LiveIds;
use super::waiting::Waiting;
use crate::config::RouterConfig;
use crate::failover::Held;
use crate::failover::{Convicts, Records};
use crate::fleet::Fleet;
use crate::metrics::Metrics;
use crate::workers::Registry;

/// What all requests share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) registry: Arc<Registry>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) config: Arc<RouterConfig>,
    pub(super) live: LiveIds,
    pub(super) waiting: Waiting,
    pub(super) texts: TextPool,
    pub(super) draining: CancellationToken,
    pub(super) running: TaskTracker,
    /// Requests that ended workers.
    pub(super) convicts: Mutex<Convicts>,
    /// Streams whose clients are gone.
    pub(super) records: Mutex<Records>,
    /// What running streams hold for such.
    pub(super) held: Held,
    /// Other routers, which may go on with streams of this one.
    pub(super) fleet: Fleet,
}

impl Shared {
    pub(super) fn new(
        registry: Arc<Registry>,
        metrics: Arc<Metrics>,
        config: Arc<RouterConfig>,
        fleet: Fleet,
    ) -> Self {
        let waiting = Waiting::new(
            config.limits.max_waiting,
            config.limits.max_unfinished_bytes,
        );
        let texts = TextPool::new(config.limits.max_unfinished_bytes);
        let refused_for = Duration::from_secs_f64(config.workers.conviction_s);
        let window = Duration::from_secs_f64(config.limits.resume_window_s);
        let records = Records::new(window, config.limits.max_resume_bytes);
        Self {
            registry,
            metrics,
            config,
            live: LiveIds::default(),
            waiting,
            texts,
            draining: CancellationToken::new(),
            running: TaskTracker::new(),
            convicts: Mutex::new(Convicts::new(refused_for)),
            records: Mutex::new(records),
            held: Held::default(),
            fleet,
        }
    }
}
