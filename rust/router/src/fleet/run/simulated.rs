//! A fleet whose Redis is simulated, and what a simulation looks at.

use std::sync::Arc;

use crate::config::{FleetConfig, LimitsConfig};
use crate::fleet::connection::Server;
use crate::fleet::entry::{Entry, Said};
use crate::fleet::handle::{Fleet, Link, Texts};
use crate::fleet::keys::ModelKey;
use crate::metrics::Metrics;

impl Fleet {
    /// The part of a router of this life.
    pub(crate) fn simulated(
        server: Arc<dyn Server>,
        origin: u128,
        limits: &LimitsConfig,
        metrics: Arc<Metrics>,
    ) -> (Self, Texts) {
        let config = FleetConfig {
            redis: Some("unix:/nowhere".into()),
            ..FleetConfig::default()
        };
        let (mut fleet, texts) = Self::new(&config, limits, None, metrics).unwrap();
        let shared = Arc::get_mut(fleet.0.as_mut().unwrap()).unwrap();
        (shared.server, shared.origin) = (Some(server), origin);
        (fleet, texts)
    }

    /// Whether it has a connection.
    pub(crate) fn is_connected(&self) -> bool {
        let shared = self.0.as_ref();
        shared.is_some_and(|shared| matches!(*shared.link.borrow(), Link::Up(_)))
    }

    /// Streams that run, or that something is still to be written of, and the bytes of all that is held.
    pub(crate) fn held(&self) -> (usize, usize, usize) {
        self.0.as_ref().map_or((0, 0, 0), |shared| {
            let streams = &shared.streams;
            let num_running = streams.running().len();
            (num_running, streams.num_due(), streams.num_bytes())
        })
    }
}

/// The tokens of an entry of a model's stream.
pub(crate) fn text_of(bytes: &[u8], model: &ModelKey) -> Option<Vec<u32>> {
    match Entry::decode(bytes, model).ok()?.said {
        Said::Text(token_ids) => Some(token_ids),
        Said::Forgotten => None,
    }
}
