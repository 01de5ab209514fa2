//! How many spans went to the collector, and how many did not.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use crate::metrics::labels::ReasonLabel;
use crate::metrics::table::Registrar;

/// The metrics of spans; zeros where none are sent. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct OtlpMetrics {
    sent: Counter,
    dropped: Family<ReasonLabel, Counter>,
}

impl OtlpMetrics {
    pub(in crate::metrics) fn new(all: &mut Registrar) -> Self {
        Self {
            sent: all.add("otlp_sent_spans", Counter::default()),
            dropped: all.add("otlp_dropped_spans", Family::default()),
        }
    }

    /// Counts spans that the collector took.
    pub(super) fn sent(&self, count: usize) {
        self.sent.inc_by(count as u64);
    }

    /// Counts spans that no collector will see.
    pub(in crate::metrics) fn dropped(&self, reason: &'static str, count: usize) {
        let label = ReasonLabel { reason };
        self.dropped.get_or_create(&label).inc_by(count as u64);
    }
}
