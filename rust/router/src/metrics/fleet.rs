//! What a router shares with others, and takes from them.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::labels::ReasonLabel;
use super::table::Registrar;

/// The metrics of the fleet; zeros where a router is alone.
#[derive(Debug)]
pub(crate) struct FleetMetrics {
    connected: Gauge,
    published: Counter,
    received: Counter,
    dropped: Family<ReasonLabel, Counter>,
    lag: Gauge<f64, AtomicU64>,
    taken_over: Counter,
    refused: Family<ReasonLabel, Counter>,
    leases_lost: Counter,
}

impl FleetMetrics {
    pub(super) fn new(all: &mut Registrar) -> Self {
        Self {
            connected: all.add("fleet_connected", Gauge::default()),
            published: all.add("fleet_published", Counter::default()),
            received: all.add("fleet_received", Counter::default()),
            dropped: all.add("fleet_dropped", Family::default()),
            lag: all.add("fleet_lag_seconds", Gauge::default()),
            taken_over: all.add("fleet_streams_taken_over", Counter::default()),
            refused: all.add("fleet_streams_refused", Family::default()),
            leases_lost: all.add("fleet_leases_lost", Counter::default()),
        }
    }

    /// Whether Redis can be used now.
    pub(crate) fn set_connected(&self, is_connected: bool) {
        self.connected.set(is_connected.into());
    }

    /// Counts a text that others can read.
    pub(crate) fn published(&self) {
        self.published.inc();
    }

    /// Counts a text of another router, which was written so long ago.
    pub(crate) fn received(&self, age: Duration) {
        self.received.inc();
        self.lag.set(age.as_secs_f64());
    }

    /// Counts a stream that another router began.
    pub(crate) fn taken_over(&self) {
        self.taken_over.inc();
    }

    /// Counts a stream of another router that cannot go on here.
    pub(crate) fn refused(&self, reason: &'static str) {
        let label = ReasonLabel { reason };
        self.refused.get_or_create(&label).inc();
    }

    /// Counts a stream that goes on at another router.
    pub(crate) fn lease_lost(&self) {
        self.leases_lost.inc();
    }

    /// Counts what was not shared, or not taken.
    pub(crate) fn dropped(&self, reason: &'static str, count: u64) {
        let label = ReasonLabel { reason };
        self.dropped.get_or_create(&label).inc_by(count);
    }
}
