//! What every request passes on its way in: a name, a key, and on its way out a last line of
//! defence.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt as _;
use http::header::{AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HeaderName};
use http::{HeaderValue, Method, StatusCode};
use spectrie_types::limits::MAX_NAME_BYTES;
use tower_http::cors::{AllowOrigin, CorsLayer};
use uuid::Uuid;

use crate::access::{ApiKeys, Grant};
use crate::generation::Caller;
use crate::listen::{Answer, Client, HeldBody, Kept, Place, Running};
use crate::metrics::{Call, Calls};
use crate::state::AppState;

use super::error::HttpError;

/// The client's name of a request; drawn when absent, always sent back.
pub(super) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// W3C's name of the trace that a request belongs to.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// Fields of the body that had no effect.
pub(super) const X_SPECTRIE_IGNORED: HeaderName = HeaderName::from_static("x-spectrie-ignored");

/// Paths that answer everyone.
pub(super) const PROBES: &[&str] = &["/healthz", "/health", "/readyz"];
const METRICS: &str = "/metrics";
/// Paths that say what runs here: they answer without a key where there are no keys, or where the
/// configuration opens them.
const INTROSPECTION: &[&str] = &[METRICS, "/version", "/openapi.json"];

/// Routes by which requests are counted; every other path is one more, so that no client can make up
/// labels.
const COUNTED: &[&str] = &[
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/models",
    "/v1/streams",
];

/// What the caller's key allows, for handlers.
#[derive(Debug, Clone)]
pub(super) struct Granted {
    grant: Option<Grant>,
    call: Call,
}

impl Granted {
    /// Whose key it is.
    pub(super) fn tenant(&self) -> Option<&str> {
        self.grant.as_ref().map(Grant::tenant)
    }

    /// The caller, who waits as long as the server lets it.
    pub(super) fn caller(self) -> Caller {
        Caller {
            grant: self.grant,
            deadline: None,
            call: self.call,
        }
    }
}

/// Name of the request, for handlers.
#[derive(Debug, Clone)]
pub(super) struct RequestId(pub(super) String);

/// Notes what becomes of a request, probes and metrics apart.
pub(super) async fn note_call(
    State(calls): State<Calls>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(route) = counted(request.uri().path()) else {
        return next.run(request).await;
    };
    let call = calls.begin(route, request.headers().get(TRACEPARENT));
    request.extensions_mut().insert(call.clone());
    let response = next.run(request).await;
    call.answered(response.status().as_str());
    response.map(|body| Body::new(HeldBody::new(body, call)))
}

/// The call of a request that is noted.
fn call_of(request: &Request) -> Call {
    let call = request.extensions().get::<Call>();
    call.cloned().unwrap_or_default()
}

/// The connection's place, from the key's check to the answer's last byte.
#[derive(Debug, Clone)]
struct Placed {
    running: Arc<Running>,
    tenant: Option<Arc<str>>,
}

/// Sends the answer in pieces, and ends it where nobody takes them. Answers that anyone can have count as unfinished
/// bodies do; where there is no room for one it is its status alone.
pub(super) async fn send(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let place = request.extensions().get::<Place>().cloned();
    let mut response = next.run(request).await;
    let placed = response.extensions_mut().remove::<Placed>();
    let client = match &placed {
        Some(placed) => Client {
            turn: placed.running.turn(),
            tenant: placed.tenant.clone(),
            place,
        },
        None => Client {
            place,
            ..Client::default()
        },
    };
    let mut share = None;
    if let (None, Some(place)) = (&placed, &client.place) {
        let open = place.bodies(Kept::Open);
        share = state.open_bodies.begin(Some(open), None, 0).ok();
        if share.is_none() {
            response.headers_mut().remove(CONTENT_LENGTH);
            return response.map(|_| Body::empty());
        }
    }
    let held = (placed, share);
    response.map(|body| Body::new(Answer::new(&state.answers, body, held, client)))
}

fn busy() -> Response {
    let error = HttpError {
        retry_after: Some(Duration::from_secs(1)),
        ..HttpError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "overloaded_error",
            Some("too_many_connections"),
            None,
            "every connection that this server may have is busy",
        )
    };
    let mut response = error.into_response();
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
    response
}

/// Names the request, and turns a panic into an answer: a bug in one request must not cut its
/// connection.
pub(super) async fn name_request(mut request: Request, next: Next) -> Response {
    let id = match request_id(&request) {
        Ok(id) => id,
        Err(error) => return error.into_response(),
    };
    call_of(&request).of_header(&id);
    request.extensions_mut().insert(RequestId(id.clone()));
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let answer = AssertUnwindSafe(next.run(request)).catch_unwind().await;
    let mut response = answer.unwrap_or_else(|_| {
        tracing::error!(request_id = id, %method, path, "a handler panicked");
        internal(&id).into_response()
    });
    let status = response.status().as_u16();
    tracing::debug!(request_id = id, %method, path, status, "answered");
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(X_REQUEST_ID, value);
    }
    response
}

fn request_id(request: &Request) -> Result<String, HttpError> {
    let Some(value) = request.headers().get(X_REQUEST_ID) else {
        return Ok(Uuid::new_v4().simple().to_string());
    };
    let bytes = value.as_bytes();
    let printable = bytes.iter().all(u8::is_ascii_graphic);
    match value.to_str() {
        Ok(id) if printable && (1..=MAX_NAME_BYTES).contains(&bytes.len()) => Ok(id.to_owned()),
        _ => Err(HttpError::invalid(
            "x-request-id",
            format!(
                "x-request-id: given {} bytes; allowed: 1 to {MAX_NAME_BYTES} printable ascii characters without blanks",
                bytes.len()
            ),
        )),
    }
}

fn internal(id: &str) -> HttpError {
    HttpError::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "server_error",
        Some("internal"),
        None,
        format!("internal failure in request {id}"),
    )
}

/// The name by which a path is counted; none for probes and what else says nothing of clients' work.
fn counted(path: &str) -> Option<&'static str> {
    if PROBES.contains(&path) || INTROSPECTION.contains(&path) {
        return None;
    }
    let is_under = |route: &str| {
        let rest = path.strip_prefix(route);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let route = COUNTED.iter().find(|route| is_under(route));
    Some(route.unwrap_or(&"other"))
}

/// Counts the answers by route and status, probes apart.
pub(super) async fn count(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let Some(route) = counted(request.uri().path()) else {
        return next.run(request).await;
    };
    let response = next.run(request).await;
    let status = response.status();
    state.metrics.request(route, status.as_str());
    response
}

/// Refuses a request whose line and headers together are larger than `limit` bytes.
pub(super) async fn bound_headers(
    State(limit): State<usize>,
    request: Request,
    next: Next,
) -> Result<Response, HttpError> {
    /// `: ` and the end of the line.
    const FIELD_OVERHEAD: usize = 4;
    let fields = request.headers().iter();
    let fields = fields.map(|(name, value)| name.as_str().len() + value.len() + FIELD_OVERHEAD);
    let uri = request.uri();
    let size = fields.sum::<usize>() + uri.path_and_query().map_or(0, |path| path.as_str().len());
    if size > limit {
        return Err(HttpError::new(
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            "invalid_request_error",
            Some("headers_too_large"),
            None,
            format!("headers: given {size} bytes; allowed: up to {limit} bytes"),
        ));
    }
    Ok(next.run(request).await)
}

/// Lets in who has a key, when keys are configured: every path but [`PROBES`], unknown paths too.
/// Metrics count all tenants, so no key of one opens them. Who was let in holds the connection's place; where every
/// other place is busy there is none.
pub(super) async fn authenticate(
    State(state): State<AppState>,
    mut request: Request,
    next: Next,
) -> Result<Response, HttpError> {
    let call = call_of(&request);
    let path = request.uri().path();
    let is_open = state.config.access.open_introspection && INTROSPECTION.contains(&path);
    let is_placed = !is_open && !PROBES.contains(&path);
    let mut placed = None;
    let grant = if is_placed {
        let header = request.headers().get(AUTHORIZATION);
        let header = header.and_then(|value| value.to_str().ok());
        let grant = state.keys.grant(header.and_then(ApiKeys::bearer));
        let grant = grant.inspect_err(|error| call.failed(error.kind))?;
        call.of_tenant(grant.as_ref().map(Grant::tenant));
        if path == METRICS && !state.keys.is_open() {
            return Err(metrics_closed());
        }
        if let Some(place) = request.extensions().get::<Place>() {
            let Some(running) = place.run() else {
                return Ok(busy());
            };
            placed = Some(Placed {
                running: Arc::new(running),
                tenant: grant.as_ref().map(|grant| Arc::from(grant.tenant())),
            });
        }
        grant
    } else {
        None
    };
    request.extensions_mut().insert(Granted { grant, call });
    let mut response = next.run(request).await;
    if let Some(placed) = placed {
        response.extensions_mut().insert(placed);
    }
    Ok(response)
}

fn metrics_closed() -> HttpError {
    HttpError::new(
        StatusCode::FORBIDDEN,
        "permission_error",
        None,
        None,
        "metrics are not served here while API keys are set: use --metrics-listen or \
         --open-introspection",
    )
}

/// Answers browsers of the given origins, `*` meaning all; `None` without origins.
pub(super) fn cors(origins: &[String]) -> Option<CorsLayer> {
    let origin = if origins.iter().any(|origin| origin == "*") {
        AllowOrigin::any()
    } else {
        let origins: Vec<_> = origins
            .iter()
            .filter_map(|origin| HeaderValue::from_str(origin).ok())
            .collect();
        if origins.is_empty() {
            return None;
        }
        AllowOrigin::list(origins)
    };
    let layer = CorsLayer::new()
        .allow_origin(origin)
        .allow_methods([Method::GET, Method::POST])
        // OpenAI's clients send a dozen `x-stainless-…` headers, so what the browser asks for is mirrored.
        .allow_headers(tower_http::cors::AllowHeaders::mirror_request())
        .expose_headers([X_REQUEST_ID, X_SPECTRIE_IGNORED, http::header::RETRY_AFTER]);
    Some(layer)
}
