//! The calls that run, and the last ones that ended.

use std::sync::Arc;

use http::HeaderValue;

use super::call::Call;
use super::context::TraceContext;
use super::report::Report;
use super::table::Table;
use crate::metrics::otlp::Exporter;

/// Every call of clients. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Calls(Arc<Table>);

impl Calls {
    /// No calls yet; `logs` says whether each writes a line when it ends. `exporter` takes the traces
    /// of those that are recorded: as the client says in its `traceparent` header, else this share.
    pub(crate) fn new(logs: bool, exporter: Option<(Exporter, f64)>) -> Self {
        Self(Arc::new(Table::new(logs, exporter)))
    }

    /// A call through `route` begins, with the `traceparent` header that came with it. It ends when
    /// the last copy of what this gives is dropped.
    pub(crate) fn begin(&self, route: &'static str, traceparent: Option<&HeaderValue>) -> Call {
        let text = traceparent.and_then(|header| header.to_str().ok());
        Call::begin(route, text.and_then(TraceContext::parse), &self.0)
    }

    /// The calls that run, the oldest first.
    pub(crate) fn running(&self) -> Vec<Report> {
        self.0.running()
    }

    /// The last calls that ended, the latest first.
    pub(crate) fn ended(&self) -> Vec<Report> {
        self.0.ended()
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::NUM_ENDED;
    use super::*;

    #[test]
    fn call_runs_until_its_last_copy_is_dropped() {
        let calls = Calls::new(false, None);
        let call = calls.begin("Generate", None);
        let copy = call.clone();
        drop(call);
        assert_eq!(calls.running().len(), 1);
        drop(copy);
        assert!(calls.running().is_empty());
        assert_eq!(calls.ended()[0].route, "Generate");
    }

    #[test]
    fn only_the_latest_calls_are_remembered() {
        let calls = Calls::new(false, None);
        for index in 0..NUM_ENDED + 10 {
            let call = calls.begin("Generate", None);
            call.named(&index.to_string());
        }
        let ended = calls.ended();
        assert_eq!(ended.len(), NUM_ENDED);
        assert_eq!(ended[0].request_id, Some((NUM_ENDED + 9).to_string()));
    }
}
