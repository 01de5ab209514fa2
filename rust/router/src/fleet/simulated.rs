//! A fleet whose Redis is simulated.

use std::sync::Arc;

use super::connection::Server;
use super::handle::{Fleet, Texts};
use crate::config::{FleetConfig, LimitsConfig};
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
}
