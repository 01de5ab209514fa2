//! What is noted of one call while it runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use spectrie_proto::v1;
use spectrie_proto::worker_v1::RequestStats;
use spectrie_types::Source;

use super::context::TraceContext;
use super::recording::Recording;
use super::report::{Report, State};
use super::spans::spans;
use crate::error::{ErrorKind, shown};
use crate::metrics::otlp::Span;
use crate::sync::{lock, now};

/// Workers that a report names.
const MAX_WORKERS: usize = 8;

/// What is known of a call.
#[derive(Debug)]
pub(super) struct Noted {
    route: &'static str,
    begun: Instant,
    /// Of its `traceparent` header.
    client: Option<TraceContext>,
    /// Where its trace is recorded.
    recording: Option<Mutex<Recording>>,
    /// Emitted by all choices.
    num_tokens: AtomicU64,
    facts: Mutex<Facts>,
}

#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) request_id: Option<String>,
    pub(super) x_request_id: Option<String>,
    pub(super) tenant: Option<String>,
    pub(super) model: Option<String>,
    /// Whether a served model has that name.
    pub(super) is_served: bool,
    pub(super) status: Option<String>,
    finishes: BTreeSet<&'static str>,
    /// The first failure.
    pub(super) failure: Option<&'static str>,
    pub(super) choices: u32,
    pub(super) prompt_tokens: u64,
    cached_tokens: u64,
    queue_ns: Option<u64>,
    to_first_token: Option<Duration>,
    accepted: BTreeMap<&'static str, u64>,
    workers: Vec<String>,
    attempts: u32,
}

impl Noted {
    /// A call through `route` begins now, recorded or not.
    pub(super) fn new(
        route: &'static str,
        client: Option<TraceContext>,
        is_recorded: bool,
    ) -> Self {
        Self {
            route,
            begun: now(),
            client,
            recording: is_recorded.then(|| Mutex::new(Recording::new(client))),
            num_tokens: AtomicU64::new(0),
            facts: Mutex::default(),
        }
    }

    /// Changes what is known.
    pub(super) fn note(&self, note: impl FnOnce(&mut Facts)) {
        note(&mut lock(&self.facts));
    }

    /// The trace that it came with.
    pub(super) fn client(&self) -> Option<TraceContext> {
        self.client
    }

    /// Adds to what is recorded of it, if it is recorded.
    pub(super) fn record<T>(&self, record: impl FnOnce(&mut Recording) -> T) -> Option<T> {
        let recording = self.recording.as_ref()?;
        Some(record(&mut lock(recording)))
    }

    /// The spans of a call that has ended; none where it was not recorded.
    pub(super) fn spans(&self, report: &Report) -> Option<Vec<Span>> {
        self.record(|recording| spans(recording, report, self.begun))
    }

    /// So many tokens came.
    pub(super) fn emitted(&self, num_tokens: u32, now: Instant) {
        let num_tokens = u64::from(num_tokens);
        if self.num_tokens.fetch_add(num_tokens, Ordering::Relaxed) == 0 {
            let waited = now.saturating_duration_since(self.begun);
            self.note(|facts| {
                facts.to_first_token.get_or_insert(waited);
            });
        }
    }

    /// What is known at its end.
    pub(super) fn last_report(&self) -> Report {
        let mut report = self.report();
        report.state = State::Ended;
        if report.status.is_none() && report.outcome.is_none() {
            let reason = ErrorKind::Cancelled.reason();
            report.outcome = Some(reason.to_owned());
            report.failure = Some(reason);
        }
        report
    }

    /// What is known while it runs.
    pub(super) fn report(&self) -> Report {
        let facts = lock(&self.facts);
        let num_tokens = self.num_tokens.load(Ordering::Relaxed);
        let state = match (facts.attempts, num_tokens) {
            (0, _) => State::Waiting,
            (_, 0) => State::Computing,
            _ => State::Answering,
        };
        let finishes: Vec<_> = facts.finishes.iter().copied().collect();
        let finish = (!finishes.is_empty()).then(|| finishes.join(","));
        Report {
            request_id: facts.request_id.clone(),
            x_request_id: facts.x_request_id.clone(),
            trace_id: self.client.as_ref().map(TraceContext::trace),
            route: self.route,
            tenant: facts.tenant.clone(),
            model: facts.model.clone(),
            state,
            status: facts.status.clone(),
            outcome: facts.failure.map(str::to_owned).or(finish),
            choices: facts.choices,
            prompt_tokens: facts.prompt_tokens,
            completion_tokens: num_tokens,
            cached_tokens: facts.cached_tokens,
            queue_ms: facts.queue_ns.map(Duration::from_nanos).map(milliseconds),
            ttft_ms: facts.to_first_token.map(milliseconds),
            total_ms: milliseconds(now().saturating_duration_since(self.begun)),
            accepted_by_source: facts.accepted.clone(),
            workers: facts.workers.clone(),
            attempts: facts.attempts,
            is_served: facts.is_served,
            finishes,
            failure: facts.failure,
        }
    }
}

impl Facts {
    /// A choice was sent to a worker, as its attempt of that number.
    pub(super) fn sent(&mut self, worker: &str, attempt: u32) {
        self.attempts = self.attempts.max(attempt);
        let is_new = self.workers.iter().all(|known| known != worker);
        if is_new && self.workers.len() < MAX_WORKERS {
            self.workers.push(shown(worker));
        }
    }

    /// A choice ended well.
    pub(super) fn finished(&mut self, finished: &v1::Finished, stats: &RequestStats) {
        self.finishes.insert(match finished.reason() {
            v1::FinishReason::Length => "length",
            v1::FinishReason::Stop | v1::FinishReason::Unspecified => "stop",
        });
        // The choices of a prompt share what the cache had of it.
        if finished.index == 0 {
            let usage = finished.usage.unwrap_or_default();
            self.cached_tokens += u64::from(usage.cached_tokens);
        }
        self.queue_ns = self.queue_ns.max(Some(stats.queue_ns));
        let by_source = stats.accepted_by_source.iter().skip(1);
        for (source, count) in Source::ALL.into_iter().zip(by_source) {
            if *count > 0 {
                *self.accepted.entry(source.name()).or_default() += u64::from(*count);
            }
        }
    }
}

/// A time in milliseconds, to the microsecond.
fn milliseconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e3
}
