//! The spans of a call that has ended, named by OpenTelemetry's conventions for generative AI.
//! Counts, times and names only, as in its line of the log.

use std::time::{Duration, Instant};

use spectrie_proto::worker_v1::RequestStats;
use spectrie_types::Source;

use super::context::TraceContext;
use super::recording::{Attempt, AttemptEnd, Recording};
use super::report::Report;
use crate::metrics::otlp::{Attributes, Event, Failure, KeyValue, Kind, Span};
use crate::sync::now;

/// What `traceparent` says of a span that is recorded.
const SAMPLED: u32 = 1;
/// That it is known where its parent is.
const HAS_REMOTE: u32 = 1 << 8;
/// That this is elsewhere.
const IS_REMOTE: u32 = 1 << 9;

/// The spans of a call: its own, what came before its first worker, and those of each attempt.
pub(super) fn spans(recording: &Recording, report: &Report, begun: Instant) -> Vec<Span> {
    let end = now();
    let times = Times {
        recording,
        begun,
        end,
    };
    let mut spans = vec![times.call(report)];
    let sent = recording
        .attempts
        .iter()
        .filter_map(|one| one.sent.as_ref());
    if let Some(first) = sent.map(|(_, at)| *at).min() {
        let parent = recording.context.span_id;
        spans.push(times.part("spectrie.prepare", parent, begun, first));
    }
    for attempt in &recording.attempts {
        if let Some((worker, sent)) = &attempt.sent {
            times.attempt(attempt, worker, *sent, &mut spans);
        }
    }
    spans
}

/// A recording between its ends.
struct Times<'a> {
    recording: &'a Recording,
    begun: Instant,
    end: Instant,
}

impl Times<'_> {
    /// A span of the call's trace, without attributes.
    fn part(&self, name: &str, parent: [u8; 8], from: Instant, to: Instant) -> Span {
        let TraceContext { trace_id, .. } = self.recording.context;
        let clock = &self.recording.clock;
        Span {
            trace_id: trace_id.to_vec(),
            id: rand::random_range(1..=u64::MAX).to_be_bytes().to_vec(),
            parent_span_id: parent.to_vec(),
            name: name.to_owned(),
            kind: Kind::Internal.into(),
            start_time_unix_nano: clock.unix_ns(from),
            end_time_unix_nano: clock.unix_ns(to.max(from)),
            flags: SAMPLED | HAS_REMOTE,
            ..Default::default()
        }
    }

    fn call(&self, report: &Report) -> Span {
        let Recording {
            context, parent, ..
        } = self.recording;
        let operation = report.operation();
        let model = report.model.as_deref();
        let name = match (operation, model) {
            (Some(operation), Some(model)) => format!("{operation} {model}"),
            (Some(operation), None) => operation.to_owned(),
            (None, _) => report.route.to_owned(),
        };
        let part = self.part(&name, parent.unwrap_or_default(), self.begun, self.end);
        let mut attributes = Attributes::default();
        if let Some(operation) = operation {
            attributes.text("gen_ai.operation.name", operation);
            attributes.text("gen_ai.provider.name", "spectrie");
        }
        attributes.text("gen_ai.request.model", model);
        if report.choices > 0 {
            attributes.text("gen_ai.response.model", model);
            attributes.text("gen_ai.response.id", report.request_id.as_deref());
            attributes.count("gen_ai.request.choice.count", u64::from(report.choices));
            attributes.count("gen_ai.usage.input_tokens", report.prompt_tokens);
            attributes.count("gen_ai.usage.output_tokens", report.completion_tokens);
            let cached = report.cached_tokens;
            attributes.count("gen_ai.usage.cache_read.input_tokens", cached);
        }
        if !report.finishes.is_empty() {
            let finishes = report.finishes.iter().copied();
            attributes.texts("gen_ai.response.finish_reasons", finishes);
        }
        match (report.route.starts_with('/'), report.status.as_deref()) {
            (true, status) => {
                attributes.text("http.route", report.route);
                if let Some(status) = status.and_then(|status| status.parse().ok()) {
                    attributes.count("http.response.status_code", status);
                }
            }
            (false, status) => {
                attributes.text("rpc.method", report.route);
                attributes.text("rpc.response.status_code", status);
            }
        }
        attributes.text("spectrie.tenant", report.tenant.as_deref());
        let failure = report.error_type();
        attributes.text("error.type", failure);
        let (parent_span_id, elsewhere) = match parent {
            Some(parent) => (parent.to_vec(), IS_REMOTE),
            None => (Vec::new(), 0),
        };
        Span {
            id: context.span_id.to_vec(),
            parent_span_id,
            kind: Kind::Server.into(),
            attributes: attributes.all(),
            events: self.failovers(),
            status: failure.map(Failure::new),
            flags: part.flags | elsewhere,
            ..part
        }
    }

    /// One event for each attempt that left its worker.
    fn failovers(&self) -> Vec<Event> {
        let attempts = self.recording.attempts.iter();
        let left = attempts.filter_map(|attempt| {
            let Some((at, AttemptEnd::Left(reason))) = &attempt.end else {
                return None;
            };
            let mut attributes = named(attempt);
            attributes.text("error.type", *reason);
            Some(Event {
                time_unix_nano: self.recording.clock.unix_ns(*at),
                name: "spectrie.failover".into(),
                attributes: attributes.all(),
            })
        });
        left.collect()
    }

    /// The span of an attempt, and those of what its worker did of it.
    fn attempt(&self, attempt: &Attempt, worker: &str, sent: Instant, spans: &mut Vec<Span>) {
        let (end, failure, stats) = match &attempt.end {
            Some((end, AttemptEnd::Finished(stats))) => (*end, None, Some(stats)),
            Some((end, AttemptEnd::Left(reason))) => (*end, Some(*reason), None),
            None => (self.end, Some("cancelled"), None),
        };
        let parent = self.recording.context.span_id;
        let mut attributes = named(attempt);
        attributes.text("spectrie.worker", worker);
        attributes.text("error.type", failure);
        spans.push(Span {
            id: attempt.span_id.to_vec(),
            attributes: attributes.all(),
            status: failure.map(Failure::new),
            ..self.part("spectrie.attempt", parent, sent, end)
        });
        let part = |name, from, to| self.part(name, attempt.span_id, from, to);
        // Nothing is known of a worker that ended between the last token and its last word.
        let stats = stats.filter(|stats| stats.prefill_ns > 0);
        let decode_times = if let Some(stats) = stats {
            let after = |from: Instant, ns| (from + Duration::from_nanos(ns)).min(end);
            let queued = after(sent, stats.queue_ns);
            let filled = after(queued, stats.prefill_ns);
            spans.push(part("spectrie.queue", sent, queued));
            spans.push(Span {
                attributes: cached(stats),
                ..part("spectrie.prefill", queued, filled)
            });
            (attempt.num_tokens > 0).then(|| (filled, after(filled, stats.decode_ns)))
        } else if let (Some(first), Some(last)) = (attempt.first_tokens, attempt.last_tokens) {
            // Its worker never said how long it waited there.
            spans.push(part("spectrie.prefill", sent, first));
            Some((first, last))
        } else {
            None
        };
        if let Some((from, to)) = decode_times {
            spans.push(Span {
                attributes: decoded(attempt, stats.map(AsRef::as_ref)),
                events: self.steps(attempt),
                dropped_events_count: attempt.unseen_steps,
                ..part("spectrie.decode", from, to)
            });
        }
    }

    fn steps(&self, attempt: &Attempt) -> Vec<Event> {
        let steps = attempt.steps.iter().map(|step| {
            let mut attributes = Attributes::default();
            attributes.count("spectrie.tokens", u64::from(step.num_tokens));
            Event {
                time_unix_nano: self.recording.clock.unix_ns(step.at),
                name: "spectrie.step".into(),
                attributes: attributes.all(),
            }
        });
        steps.collect()
    }
}

/// Which attempt of which choice.
fn named(attempt: &Attempt) -> Attributes {
    let mut attributes = Attributes::default();
    attributes.count("spectrie.choice", u64::from(attempt.index));
    attributes.count("spectrie.attempt", u64::from(attempt.number) + 1);
    attributes
}

fn cached(stats: &RequestStats) -> Vec<KeyValue> {
    let mut attributes = Attributes::default();
    attributes.count("spectrie.cached_tokens", u64::from(stats.cached_tokens));
    attributes.all()
}

fn decoded(attempt: &Attempt, stats: Option<&RequestStats>) -> Vec<KeyValue> {
    let mut attributes = Attributes::default();
    attributes.count("spectrie.tokens", attempt.num_tokens);
    if let Some(stats) = stats {
        attributes.count("spectrie.verify_steps", u64::from(stats.verify_steps));
        attributes.count("spectrie.drafted_tokens", u64::from(stats.drafted_tokens));
        let by_source = stats.accepted_by_source.iter().skip(1);
        for (source, count) in Source::ALL.into_iter().zip(by_source) {
            if *count > 0 {
                let name = format!("spectrie.accepted_tokens.{}", source.name());
                attributes.count(&name, u64::from(*count));
            }
        }
    }
    attributes.all()
}
