//! The error table: what each API says for each kind of failure.

use std::fmt;

use http::StatusCode;
use tonic::Code;

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
    /// No such corpus or namespace.
    NotFound,
    /// A corpus of this name is loaded.
    AlreadyExists,
    /// The file or the server's settings do not allow it.
    FailedPrecondition,
    /// The tenant used up its rate.
    RateLimited,
    /// More requests wait than the server takes.
    QueueFull,
    /// Loading, draining, or no worker.
    Unavailable,
    /// The worker died and no other came in time.
    WorkerLost,
    /// Workers end when they run it.
    EndsWorkers,
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
    pub const ALL: [Self; 19] = [
        Self::InvalidField,
        Self::ContextLength,
        Self::TooLarge,
        Self::Unauthenticated,
        Self::PermissionDenied,
        Self::ModelNotFound,
        Self::Unsupported,
        Self::DuplicateRequest,
        Self::NotFound,
        Self::AlreadyExists,
        Self::FailedPrecondition,
        Self::RateLimited,
        Self::QueueFull,
        Self::Unavailable,
        Self::WorkerLost,
        Self::EndsWorkers,
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
            Self::NotFound => row(Code::NotFound, 404, "not_found_error", None, "NOT_FOUND"),
            Self::AlreadyExists => row(
                Code::AlreadyExists,
                409,
                "conflict_error",
                None,
                "ALREADY_EXISTS",
            ),
            Self::FailedPrecondition => row(
                Code::FailedPrecondition,
                400,
                INVALID,
                None,
                "FAILED_PRECONDITION",
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
            Self::EndsWorkers => row(
                Code::InvalidArgument,
                400,
                INVALID,
                Some("ends_workers"),
                "ENDS_WORKERS",
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

impl fmt::Display for ErrorKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.reason())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_valid_http_status_and_its_own_reason() {
        let mut reasons = std::collections::BTreeSet::new();
        for kind in ErrorKind::ALL {
            assert_eq!(kind.http_status().as_u16(), kind.row().http);
            assert!(reasons.insert(kind.reason()), "{kind} twice");
        }
    }
}
