//! What is known of a call, as lines and operators see it.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::metrics::otlp::Measured;

/// How far a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// No worker has it.
    Waiting,
    /// A worker has it and gave no token.
    Computing,
    /// It has tokens.
    Answering,
    /// It is over.
    Ended,
}

/// A call, as far as it is known.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    /// Of the request; the drawn one where the client chose none.
    pub(crate) request_id: Option<String>,
    /// Of the HTTP header, drawn where the client sent none.
    pub(crate) x_request_id: Option<String>,
    /// Of the `traceparent` header.
    pub(crate) trace_id: Option<String>,
    /// Path or method, `other` for one that does not exist.
    pub(crate) route: &'static str,
    /// Of the key.
    pub(crate) tenant: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) state: State,
    /// HTTP status or name of the gRPC code; none while nothing was answered.
    pub(crate) status: Option<String>,
    /// `stop` or `length` of choices that ended well, a reason of the error table, or `CANCELLED`;
    /// none while it runs, and where nothing was generated.
    pub(crate) outcome: Option<String>,
    /// Completions asked for.
    pub(crate) choices: u32,
    pub(crate) prompt_tokens: u64,
    /// Of all choices, those of choices that broke off included.
    pub(crate) completion_tokens: u64,
    /// Prompt tokens that the prefix cache had.
    pub(crate) cached_tokens: u64,
    /// Longest wait for a worker to start the prompt, of choices that ended.
    pub(crate) queue_ms: Option<f64>,
    /// Until the first token.
    pub(crate) ttft_ms: Option<f64>,
    /// Until the last byte was sent, or so far.
    pub(crate) total_ms: f64,
    /// Draft tokens accepted, of choices that ended.
    pub(crate) accepted_by_source: BTreeMap<&'static str, u64>,
    /// Those that had it, in order; at most eight.
    pub(crate) workers: Vec<String>,
    /// How often the choice that was sent most often was sent to a worker.
    pub(crate) attempts: u32,
    /// Whether its model is one that is served.
    #[serde(skip)]
    pub(crate) is_served: bool,
    /// How choices ended that ended well.
    #[serde(skip)]
    pub(crate) finishes: Vec<&'static str>,
    /// Why it failed, if it did.
    #[serde(skip)]
    pub(crate) failure: Option<&'static str>,
}

impl Report {
    /// What a route is called among generative AIs; none where it generates nothing.
    pub(super) fn operation(&self) -> Option<&'static str> {
        match self.route {
            "/v1/chat/completions" => Some("chat"),
            "/v1/completions" | "/v1/streams" | "Generate" | "GenerateStream" | "ResumeStream" => {
                Some("text_completion")
            }
            _ => None,
        }
    }

    /// Its `error.type`: why it failed, `_OTHER` where its status alone says that it did.
    pub(super) fn error_type(&self) -> Option<&'static str> {
        let is_error = |status: &str| match status.parse::<u16>() {
            Ok(code) => code >= 400,
            Err(_) => status != "Ok",
        };
        let is_other = self.status.as_deref().is_some_and(is_error);
        self.failure.or(is_other.then_some("_OTHER"))
    }

    /// Its times, of a call that generates.
    pub(super) fn measured(&self) -> Option<Measured> {
        let (request_s, first_token_s) = (self.total_ms * 1e-3, self.ttft_ms.map(|ms| ms * 1e-3));
        let failure = self.error_type();
        // Choices are computed side by side.
        let more = self.completion_tokens as f64 / f64::from(self.choices.max(1)) - 1.0;
        let decode_s = first_token_s.map(|first_s| (request_s - first_s).max(0.0));
        let has_ended_well = failure.is_none() && !self.finishes.is_empty();
        // What one that goes on with a stream is sent first was computed for another call.
        let is_timed = has_ended_well && !matches!(self.route, "/v1/streams" | "ResumeStream");
        // Clients may name what no one serves, and would fill a collector with it.
        let model = self.model.as_ref().filter(|_| self.is_served);
        Some(Measured {
            operation: self.operation()?,
            model: model.cloned(),
            failure,
            request_s,
            first_token_s: first_token_s.filter(|_| is_timed),
            per_token_s: decode_s
                .filter(|_| is_timed && more > 0.0)
                .map(|decode_s| decode_s / more),
        })
    }
}
