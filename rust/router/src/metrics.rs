//! What the router counts and measures.

/// All metrics of the router.
#[derive(Debug, Default)]
pub struct Metrics {}

impl Metrics {
    /// The metrics in Prometheus's text form (OpenMetrics), with its content type.
    pub fn encode(&self) -> (&'static str, String) {
        (
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            "# EOF\n".into(),
        )
    }
}
