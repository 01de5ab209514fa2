//! What can go wrong with a request, and how gRPC and OpenAI HTTP say it.

use std::fmt;
use std::time::Duration;

use http::StatusCode;
use spectrie_proto::validate::Violation;
use tonic::Code;
use tonic_types::{ErrorDetails, FieldViolation, StatusExt as _};

/// Domain of `google.rpc.ErrorInfo`.
const DOMAIN: &str = "spectrie";

/// Kinds of failure: one per row of the error table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Fields break their limits.
    InvalidField,
    /// Prompt and answer do not fit in the context.
    ContextLength,
    /// The message or body is too large.
    TooLarge,
    /// No key, or an unknown one.
    Unauthenticated,
    /// The caller may not do this.
    PermissionDenied,
    /// No such model.
    ModelNotFound,
    /// The option exists elsewhere, not here.
    Unsupported,
    /// A request of this id is running.
    DuplicateRequest,
    /// The tenant used up its rate.
    RateLimited,
    /// More requests wait than the server takes.
    QueueFull,
    /// Loading, draining, or no worker.
    Unavailable,
    /// The worker died with tokens already sent.
    WorkerLost,
    /// The caller's deadline passed.
    DeadlineExceeded,
    /// The caller went away.
    Cancelled,
    /// A bug; the message carries no internals.
    Internal,
}

/// What each API says for one kind.
#[derive(Clone, Copy, Debug)]
struct Row {
    grpc: Code,
    http: u16,
    openai_type: &'static str,
    openai_code: Option<&'static str>,
    /// `reason` of `google.rpc.ErrorInfo`, also the label of metrics.
    reason: &'static str,
}

const fn row(
    grpc: Code,
    http: u16,
    openai_type: &'static str,
    openai_code: Option<&'static str>,
    reason: &'static str,
) -> Row {
    Row {
        grpc,
        http,
        openai_type,
        openai_code,
        reason,
    }
}

impl ErrorKind {
    /// Every kind, in the order of the error table.
    pub const ALL: [Self; 15] = [
        Self::InvalidField,
        Self::ContextLength,
        Self::TooLarge,
        Self::Unauthenticated,
        Self::PermissionDenied,
        Self::ModelNotFound,
        Self::Unsupported,
        Self::DuplicateRequest,
        Self::RateLimited,
        Self::QueueFull,
        Self::Unavailable,
        Self::WorkerLost,
        Self::DeadlineExceeded,
        Self::Cancelled,
        Self::Internal,
    ];

    const fn row(self) -> Row {
        const INVALID: &str = "invalid_request_error";
        const SERVER: &str = "server_error";
        match self {
            Self::InvalidField => row(
                Code::InvalidArgument,
                400,
                INVALID,
                Some("invalid_value"),
                "INVALID_FIELD",
            ),
            Self::ContextLength => row(
                Code::InvalidArgument,
                400,
                INVALID,
                Some("context_length_exceeded"),
                "CONTEXT_LENGTH_EXCEEDED",
            ),
            Self::TooLarge => row(
                Code::ResourceExhausted,
                413,
                INVALID,
                Some("request_too_large"),
                "REQUEST_TOO_LARGE",
            ),
            Self::Unauthenticated => row(
                Code::Unauthenticated,
                401,
                "authentication_error",
                Some("invalid_api_key"),
                "INVALID_API_KEY",
            ),
            Self::PermissionDenied => row(
                Code::PermissionDenied,
                403,
                "permission_error",
                None,
                "PERMISSION_DENIED",
            ),
            Self::ModelNotFound => row(
                Code::NotFound,
                404,
                "not_found_error",
                Some("model_not_found"),
                "MODEL_NOT_FOUND",
            ),
            Self::Unsupported => row(
                Code::Unimplemented,
                400,
                INVALID,
                Some("unsupported_value"),
                "UNSUPPORTED",
            ),
            Self::DuplicateRequest => row(
                Code::AlreadyExists,
                409,
                "conflict_error",
                None,
                "DUPLICATE_REQUEST",
            ),
            Self::RateLimited => row(
                Code::ResourceExhausted,
                429,
                "rate_limit_error",
                Some("rate_limit_exceeded"),
                "RATE_LIMITED",
            ),
            Self::QueueFull => row(
                Code::ResourceExhausted,
                429,
                "overloaded_error",
                Some("queue_full"),
                "QUEUE_FULL",
            ),
            Self::Unavailable => row(
                Code::Unavailable,
                503,
                SERVER,
                Some("unavailable"),
                "UNAVAILABLE",
            ),
            Self::WorkerLost => row(
                Code::Unavailable,
                503,
                SERVER,
                Some("worker_lost"),
                "WORKER_LOST",
            ),
            Self::DeadlineExceeded => row(
                Code::DeadlineExceeded,
                504,
                "timeout_error",
                None,
                "DEADLINE_EXCEEDED",
            ),
            Self::Cancelled => row(Code::Cancelled, 499, SERVER, None, "CANCELLED"),
            Self::Internal => row(Code::Internal, 500, SERVER, Some("internal"), "INTERNAL"),
        }
    }

    /// The gRPC code.
    pub const fn grpc_code(self) -> Code {
        self.row().grpc
    }

    /// The HTTP status.
    pub fn http_status(self) -> StatusCode {
        StatusCode::from_u16(self.row().http).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// `error.type` of OpenAI's body.
    pub const fn openai_type(self) -> &'static str {
        self.row().openai_type
    }

    /// `error.code` of OpenAI's body.
    pub const fn openai_code(self) -> Option<&'static str> {
        self.row().openai_code
    }

    /// `reason` of `google.rpc.ErrorInfo`, in capitals.
    pub const fn reason(self) -> &'static str {
        self.row().reason
    }
}

/// Why a request was refused or ended early.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct RequestError {
    /// The row of the error table.
    pub kind: ErrorKind,
    /// One sentence, lower case, with what was given and what is allowed.
    pub message: String,
    /// The fields at fault, as the proto file names them.
    pub violations: Vec<Violation>,
    /// When trying again may help.
    pub retry_after: Option<Duration>,
    /// Tokens the caller already has, for a stream that broke.
    pub tokens_sent: Option<u64>,
    /// The model or request that the error is about: (type, name).
    pub resource: Option<Box<(&'static str, String)>>,
    /// The request's id, once it has one.
    pub request_id: Option<String>,
}

impl RequestError {
    /// An error of `kind` with `message` alone.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            violations: Vec::new(),
            retry_after: None,
            tokens_sent: None,
            resource: None,
            request_id: None,
        }
    }

    /// One bad field.
    pub fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::invalid_fields(vec![Violation {
            field: field.into(),
            message: message.into(),
        }])
    }

    /// All bad fields of a request; `violations` must not be empty.
    pub fn invalid_fields(violations: Vec<Violation>) -> Self {
        let message = violations
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("; ");
        Self {
            violations,
            ..Self::new(ErrorKind::InvalidField, message)
        }
    }

    /// The prompt, or prompt and answer together, are longer than the context.
    pub fn context_length(field: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        let violation = Violation {
            field: field.into(),
            message: message.clone(),
        };
        Self {
            violations: vec![violation],
            ..Self::new(ErrorKind::ContextLength, message)
        }
    }

    /// An option that this server does not have.
    pub fn unsupported(field: impl Into<String>, message: impl Into<String>) -> Self {
        let (field, message) = (field.into(), message.into());
        let text = format!("{field}: {message}");
        let violations = vec![Violation { field, message }];
        Self {
            violations,
            ..Self::new(ErrorKind::Unsupported, text)
        }
    }

    /// No such model among `served`.
    pub fn model_not_found(model: &str, served: &[String]) -> Self {
        let message = format!(
            "model {model:?} is not served, allowed {}",
            served.join(", ")
        );
        let resource = Some(Box::new(("model", model.to_owned())));
        Self {
            resource,
            ..Self::new(ErrorKind::ModelNotFound, message)
        }
    }

    /// A failure that trying again after `delay` may cure.
    pub fn retry(kind: ErrorKind, message: impl Into<String>, delay: Duration) -> Self {
        Self {
            retry_after: Some(delay),
            ..Self::new(kind, message)
        }
    }

    /// The worker of a running request died after `tokens_sent` tokens.
    pub fn worker_lost(tokens_sent: u64, delay: Duration) -> Self {
        let message = format!("the worker was lost after {tokens_sent} tokens were sent");
        Self {
            retry_after: Some(delay),
            tokens_sent: Some(tokens_sent),
            ..Self::new(ErrorKind::WorkerLost, message)
        }
    }

    /// The same error, knowing its request.
    #[must_use]
    pub fn of_request(mut self, request_id: &str) -> Self {
        self.request_id = Some(request_id.to_owned());
        self
    }

    /// The first field at fault: `param` of OpenAI's body.
    pub fn field(&self) -> Option<&str> {
        self.violations
            .first()
            .map(|violation| violation.field.as_str())
    }

    /// Seconds for the `Retry-After` header, at least 1.
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.retry_after
            .map(|delay| (delay.as_secs_f64().ceil() as u64).max(1))
    }

    fn details(&self) -> ErrorDetails {
        let mut details = ErrorDetails::new();
        let mut metadata = std::collections::HashMap::new();
        if let Some(tokens) = self.tokens_sent {
            metadata.insert("tokens_sent".to_owned(), tokens.to_string());
        }
        details.set_error_info(self.kind.reason(), DOMAIN, metadata);
        if !self.violations.is_empty() {
            let violations = self
                .violations
                .iter()
                .map(|violation| FieldViolation::new(&violation.field, &violation.message));
            details.set_bad_request(violations.collect::<Vec<_>>());
        }
        if let Some(delay) = self.retry_after {
            details.set_retry_info(Some(delay));
        }
        if self.kind == ErrorKind::RateLimited {
            details.add_quota_failure_violation("tenant", &self.message);
        }
        if let Some((kind, name)) = self.resource.as_deref() {
            details.set_resource_info(*kind, name, "", &self.message);
        }
        if let Some(request_id) = &self.request_id {
            details.set_request_info(request_id, "");
        }
        details
    }
}

impl From<RequestError> for tonic::Status {
    fn from(error: RequestError) -> Self {
        let details = error.details();
        Self::with_error_details(error.kind.grpc_code(), error.message, details)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.reason())
    }
}

/// Why the router could not start or had to end.
#[derive(Debug, thiserror::Error)]
pub enum RouterError {
    /// The configuration is not what [`crate::RouterConfig`] says.
    #[error("bad router configuration: {0}")]
    Config(String),
    /// A socket could not be opened.
    #[error("cannot listen on {address} ({option}): {source}")]
    Listen {
        /// The address as given.
        address: String,
        /// The option that sets it.
        option: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file of the configuration could not be used.
    #[error("cannot use {path} ({option}): {message}")]
    File {
        /// The file.
        path: String,
        /// The option that names it.
        option: &'static str,
        /// What is wrong with it.
        message: String,
    },
    /// A server task failed.
    #[error("the {name} server failed: {message}")]
    Serve {
        /// Which server.
        name: &'static str,
        /// What it said.
        message: String,
    },
    /// The runtime could not be built.
    #[error("cannot start the runtime: {0}")]
    Runtime(#[from] std::io::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_carries_every_detail() {
        let error = RequestError::worker_lost(7, Duration::from_secs(2)).of_request("r1");
        let status = tonic::Status::from(error);
        assert_eq!(status.code(), Code::Unavailable);
        let details = status.get_error_details();
        let info = details.error_info().unwrap();
        assert_eq!(info.reason, "WORKER_LOST");
        assert_eq!(info.metadata["tokens_sent"], "7");
        let delay = details.retry_info().unwrap().retry_delay;
        assert_eq!(delay, Some(Duration::from_secs(2)));
        assert_eq!(details.request_info().unwrap().request_id, "r1");
    }

    #[test]
    fn invalid_fields_become_field_violations_and_the_first_is_the_param() {
        let error = RequestError::invalid("sampling.top_p", "given 2, allowed above 0, up to 1");
        assert_eq!(error.field(), Some("sampling.top_p"));
        let status = tonic::Status::from(error);
        assert_eq!(
            status.message(),
            "sampling.top_p: given 2, allowed above 0, up to 1"
        );
        let details = status.get_error_details();
        assert_eq!(
            details.bad_request().unwrap().field_violations[0].field,
            "sampling.top_p"
        );
    }

    #[test]
    fn every_kind_has_a_valid_http_status_and_its_own_reason() {
        let mut reasons = std::collections::BTreeSet::new();
        for kind in ErrorKind::ALL {
            assert_eq!(kind.http_status().as_u16(), kind.row().http);
            assert!(reasons.insert(kind.reason()), "{kind} twice");
        }
    }
}
