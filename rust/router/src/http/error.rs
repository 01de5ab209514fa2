//! Errors in OpenAI's shape: `{"error": {"message", "type", "param", "code"}}` with a status and,
//! where waiting helps, a `Retry-After` header.

use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use serde::Serialize;

/// An answer that is an error, ready to be sent as a whole response or as one event of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HttpError {
    /// Status of the response; unused once a stream has begun.
    pub(super) status: StatusCode,
    /// OpenAI's `type`, such as `invalid_request_error`.
    pub(super) kind: &'static str,
    /// OpenAI's `code`; null when absent.
    pub(super) code: Option<&'static str>,
    /// The field, header or path segment at fault, as the client wrote it.
    pub(super) param: Option<String>,
    /// What was given and what is allowed.
    pub(super) message: String,
    /// How long to wait before another try.
    pub(super) retry_after: Option<Duration>,
    /// Methods of the path, for 405.
    pub(super) allow: Option<&'static str>,
}

#[derive(Serialize)]
struct Envelope<'a> {
    error: Fields<'a>,
}

#[derive(Serialize)]
struct Fields<'a> {
    message: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    param: Option<&'a str>,
    code: Option<&'a str>,
}

impl HttpError {
    pub(super) fn new(
        status: StatusCode,
        kind: &'static str,
        code: Option<&'static str>,
        param: Option<&str>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            status,
            kind,
            code,
            param: param.map(str::to_owned),
            message: message.into(),
            retry_after: None,
            allow: None,
        }
    }

    /// A field whose value is not allowed.
    pub(super) fn invalid(param: &str, message: impl Into<String>) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "invalid_request_error",
            Some("invalid_value"),
            Some(param),
            message,
        )
    }

    /// A field that asks for something this server does not do.
    pub(super) fn unsupported(param: &str, message: impl Into<String>) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "invalid_request_error",
            Some("unsupported_value"),
            Some(param),
            message,
        )
    }

    /// The body as JSON bytes: also the payload of a stream's error event.
    pub(super) fn to_json(&self) -> Vec<u8> {
        let envelope = Envelope {
            error: Fields {
                message: &self.message,
                kind: self.kind,
                param: self.param.as_deref(),
                code: self.code,
            },
        };
        // Four strings and options of strings always serialise.
        serde_json::to_vec(&envelope).unwrap_or_default()
    }
}

impl IntoResponse for HttpError {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.to_json()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(wait) = self.retry_after {
            // Whole seconds, rounded up, so that a client never comes back early.
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        }
        if let Some(allow) = self.allow {
            headers.insert(ALLOW, HeaderValue::from_static(allow));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(
                http::header::WWW_AUTHENTICATE,
                HeaderValue::from_static("Bearer"),
            );
        }
        response
    }
}
