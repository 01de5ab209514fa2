//! What machines ask: `/healthz` and `/health` (this process answers), `/readyz` (a worker is ready
//! and the router is not draining; busy is ready), `/metrics`, `/version`.

mod debug;
mod openapi;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::json;

use crate::state::AppState;

pub(super) use debug::{Operators, routes as debug_routes};

/// The routes of this file.
pub(super) fn routes() -> axum::Router<AppState> {
    axum::Router::new()
        .route("/healthz", get(health))
        .route("/health", get(health))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/version", get(version))
}

/// The description of the API, where the API is.
pub(super) fn described() -> axum::Router<AppState> {
    axum::Router::new().route("/openapi.json", get(openapi::serve))
}

async fn health() -> Response {
    Json(json!({"status": "ok"})).into_response()
}

async fn ready(State(state): State<AppState>) -> Response {
    let models = state.generation.models();
    let models: Vec<_> = models.into_iter().map(|model| model.name).collect();
    if state.generation.is_ready() {
        Json(json!({"status": "ready", "models": models})).into_response()
    } else {
        let body = Json(json!({"status": "not ready", "models": models}));
        (StatusCode::SERVICE_UNAVAILABLE, body).into_response()
    }
}

async fn metrics(State(state): State<AppState>) -> Response {
    let (content_type, text) = state.metrics.encode();
    ([(CONTENT_TYPE, content_type)], text).into_response()
}

async fn version() -> Response {
    Json(json!({"version": env!("CARGO_PKG_VERSION")})).into_response()
}
