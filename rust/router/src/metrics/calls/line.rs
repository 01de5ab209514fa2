//! The line of the log that says what a call did.

use std::fmt::Write as _;

use super::report::Report;

/// Writes the line of a call that ended. Clients' texts are values of type string, which the log
/// quotes and escapes.
pub(super) fn log(report: &Report) {
    let mut accepted = String::new();
    for (source, tokens) in &report.accepted_by_source {
        let comma = if accepted.is_empty() { "" } else { "," };
        // Writing to a string does not fail.
        let _ = write!(accepted, "{comma}{source}:{tokens}");
    }
    let workers = report.workers.join(",");
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    tracing::info!(
        target: "access",
        request_id = report.request_id.as_deref(),
        x_request_id = report.x_request_id.as_deref(),
        trace_id = report.trace_id.as_deref(),
        tenant = report.tenant.as_deref(),
        model = report.model.as_deref(),
        route = report.route,
        status = report.status.as_deref(),
        outcome = report.outcome.as_deref(),
        choices = report.choices,
        prompt_tokens = report.prompt_tokens,
        completion_tokens = report.completion_tokens,
        cached_tokens = report.cached_tokens,
        queue_ms = report.queue_ms,
        ttft_ms = report.ttft_ms,
        total_ms = report.total_ms,
        accepted = given(&accepted),
        workers = given(&workers),
        attempts = report.attempts,
        "access"
    );
}
