//! What is recorded of a call for its trace: when which worker did what of it.

use std::time::{Duration, Instant};

use spectrie_proto::worker_v1::RequestStats;

use super::context::TraceContext;
use crate::sync::{now, unix_time};

/// Attempts that are recorded of a call; more go unseen.
const MAX_ATTEMPTS: usize = 256;
/// Steps that are recorded of a call; more are counted.
const MAX_STEPS: usize = 512;

/// One attempt of a choice, as others name it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttemptName<'a> {
    /// Of the choice's request: a call may have several.
    pub(crate) request_id: &'a str,
    pub(crate) index: u32,
    /// Counted from 0.
    pub(crate) number: u32,
}

/// A call that is recorded.
#[derive(Debug)]
pub(super) struct Recording {
    /// Its own span.
    pub(super) context: TraceContext,
    /// Span of the client that it belongs to.
    pub(super) parent: Option<[u8; 8]>,
    pub(super) clock: Clock,
    pub(super) attempts: Vec<Attempt>,
    num_steps: usize,
}

/// An attempt of a choice.
#[derive(Debug)]
pub(super) struct Attempt {
    request_id: String,
    pub(super) index: u32,
    pub(super) number: u32,
    pub(super) span_id: [u8; 8],
    /// With which worker it is, and since when.
    pub(super) sent: Option<(String, Instant)>,
    pub(super) steps: Vec<Step>,
    pub(super) unseen_steps: u32,
    pub(super) first_tokens: Option<Instant>,
    pub(super) last_tokens: Option<Instant>,
    pub(super) num_tokens: u64,
    pub(super) end: Option<(Instant, AttemptEnd)>,
}

/// Tokens that came at once, most often of one step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) at: Instant,
    pub(super) num_tokens: u32,
}

/// How an attempt ended.
#[derive(Debug)]
pub(super) enum AttemptEnd {
    /// Its choice ended well; its worker says this of it.
    Finished(Box<RequestStats>),
    /// Its choice left the worker, for this reason.
    Left(&'static str),
}

/// Turns moments into Unix times of one call, so that its spans never disagree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    at: Instant,
    unix: Duration,
}

impl Clock {
    fn new() -> Self {
        Self {
            at: now(),
            unix: unix_time(),
        }
    }

    /// Unix time of a moment, in nanoseconds.
    pub(super) fn unix_ns(&self, moment: Instant) -> u64 {
        let since = moment.saturating_duration_since(self.at);
        let ago = self.at.saturating_duration_since(moment);
        let time = (self.unix + since).saturating_sub(ago);
        u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// An id that no other span has.
fn drawn<const N: usize>() -> [u8; N] {
    std::array::from_fn(|_| rand::random_range(1..=u8::MAX))
}

impl Recording {
    /// A call that goes on the trace of its client, or begins one.
    pub(super) fn new(client: Option<TraceContext>) -> Self {
        Self {
            context: TraceContext {
                trace_id: client.map_or_else(drawn, |client| client.trace_id),
                span_id: drawn(),
                is_sampled: true,
            },
            parent: client.map(|client| client.span_id),
            clock: Clock::new(),
            attempts: Vec::new(),
            num_steps: 0,
        }
    }

    fn find(&mut self, name: AttemptName<'_>) -> Option<&mut Attempt> {
        // The last ones are those that run.
        self.attempts.iter_mut().rev().find(|attempt| {
            attempt.index == name.index
                && attempt.number == name.number
                && attempt.request_id == name.request_id
        })
    }

    /// What a worker is told of an attempt that is to be sent.
    pub(super) fn order(&mut self, name: AttemptName<'_>) -> TraceContext {
        let context = self.context;
        if let Some(known) = self.find(name) {
            let span_id = known.span_id;
            return TraceContext { span_id, ..context };
        }
        if self.attempts.len() == MAX_ATTEMPTS {
            return context;
        }
        let span_id = drawn();
        self.attempts.push(Attempt {
            request_id: name.request_id.to_owned(),
            index: name.index,
            number: name.number,
            span_id,
            sent: None,
            steps: Vec::new(),
            unseen_steps: 0,
            first_tokens: None,
            last_tokens: None,
            num_tokens: 0,
            end: None,
        });
        TraceContext { span_id, ..context }
    }

    /// An attempt is with a worker.
    pub(super) fn sent(&mut self, name: AttemptName<'_>, worker: &str) {
        if let Some(attempt) = self.find(name) {
            attempt.sent = Some((worker.to_owned(), now()));
        }
    }

    /// Tokens of an attempt came.
    pub(super) fn stepped(&mut self, name: AttemptName<'_>, num_tokens: u32, at: Instant) {
        let is_seen = self.num_steps < MAX_STEPS;
        let Some(attempt) = self.find(name) else {
            return;
        };
        attempt.first_tokens.get_or_insert(at);
        attempt.last_tokens = Some(at);
        attempt.num_tokens += u64::from(num_tokens);
        if is_seen {
            attempt.steps.push(Step { at, num_tokens });
            self.num_steps += 1;
        } else {
            attempt.unseen_steps += 1;
        }
    }

    /// An attempt is over.
    pub(super) fn ended(&mut self, name: AttemptName<'_>, end: AttemptEnd) {
        if let Some(attempt) = self.find(name) {
            attempt.end.get_or_insert_with(|| (now(), end));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(index: u32, number: u32) -> AttemptName<'static> {
        AttemptName {
            request_id: "a",
            index,
            number,
        }
    }

    #[test]
    fn attempt_that_is_ordered_twice_has_one_span() {
        let mut recording = Recording::new(None);
        let first = recording.order(name(0, 0));
        assert_eq!(recording.order(name(0, 0)), first);
        let second = recording.order(name(0, 1));
        assert_ne!(second.span_id, first.span_id);
        assert_eq!(second.trace_id, first.trace_id);
        assert_eq!(recording.attempts.len(), 2);
    }

    #[test]
    fn long_calls_are_recorded_within_bounds() {
        let mut recording = Recording::new(None);
        for index in 0..MAX_ATTEMPTS as u32 + 9 {
            recording.order(name(index, 0));
            recording.sent(name(index, 0), "w0");
        }
        assert_eq!(recording.attempts.len(), MAX_ATTEMPTS);
        for _ in 0..MAX_STEPS + 9 {
            recording.stepped(name(0, 0), 2, now());
        }
        let attempt = &recording.attempts[0];
        assert_eq!((attempt.steps.len(), attempt.unseen_steps), (MAX_STEPS, 9));
        assert_eq!(attempt.num_tokens, 2 * (MAX_STEPS as u64 + 9));
    }
}
