//! Paths and methods that do not exist, answered in OpenAI's shape with what does.

use axum::extract::Request;
use http::StatusCode;

use super::error::HttpError;

const EXISTING: &str = "POST /v1/chat/completions, POST /v1/completions, GET /v1/models, GET /v1/models/{id}, GET /v1/streams/{request_id}, GET /healthz, GET /readyz, GET /metrics, GET /version, GET /openapi.json";

/// Endpoints of other APIs that clients try, and what to use here.
const ELSEWHERE: &[(&str, &str)] = &[
    (
        "/v1/responses",
        "the Responses API is not served here, use POST /v1/chat/completions",
    ),
    ("/v1/embeddings", "this server generates text only"),
    (
        "/v1/messages",
        "the Messages API is not served here, use POST /v1/chat/completions",
    ),
];

/// No such path.
pub(super) async fn not_found(request: Request) -> HttpError {
    let path = request.uri().path();
    let known = ELSEWHERE.iter().find(|(prefix, _)| {
        let rest = path.strip_prefix(prefix);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    });
    let hint = known.map_or(String::new(), |(_, hint)| format!("{hint}; "));
    HttpError::new(
        StatusCode::NOT_FOUND,
        "not_found_error",
        Some("unknown_url"),
        None,
        format!(
            "no such path: {} {path}; {hint}existing are {EXISTING}",
            request.method()
        ),
    )
}

/// The path exists with another method.
pub(super) async fn get_only(request: Request) -> HttpError {
    not_allowed(&request, "GET, HEAD")
}

/// The path exists with another method.
pub(super) async fn post_only(request: Request) -> HttpError {
    not_allowed(&request, "POST")
}

fn not_allowed(request: &Request, allow: &'static str) -> HttpError {
    HttpError {
        allow: Some(allow),
        ..HttpError::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "invalid_request_error",
            Some("method_not_allowed"),
            None,
            format!(
                "{}: given method {}; allowed: {allow}",
                request.uri().path(),
                request.method()
            ),
        )
    }
}
