//! Routes, and the listeners that serve them.

use std::time::Duration;

use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{fallback, generate, layers, models, probes, server};
use crate::state::AppState;

/// Serves OpenAI's routes, probes and metrics until `shutdown`; then takes no new connection and
/// returns when the last response has ended.
///
/// # Errors
/// What the system says when the listener breaks.
pub async fn serve(
    listener: TcpListener,
    state: AppState,
    shutdown: CancellationToken,
) -> std::io::Result<()> {
    let (max_header_bytes, stall) = (max_header_bytes(&state), client_stall(&state));
    server::run(listener, routes(state), max_header_bytes, stall, shutdown).await;
    Ok(())
}

/// Serves probes and metrics alone, as [`serve`] does.
///
/// # Errors
/// What the system says when the listener breaks.
pub async fn serve_probes(
    listener: TcpListener,
    state: AppState,
    shutdown: CancellationToken,
) -> std::io::Result<()> {
    let (max_header_bytes, stall) = (max_header_bytes(&state), client_stall(&state));
    let router = probes::routes()
        .fallback(fallback::not_found)
        .method_not_allowed_fallback(fallback::get_only)
        .with_state(state);
    server::run(listener, router, max_header_bytes, stall, shutdown).await;
    Ok(())
}

fn max_header_bytes(state: &AppState) -> usize {
    state.config.limits.max_header_bytes as usize
}

fn client_stall(state: &AppState) -> Duration {
    Duration::from_secs_f64(state.config.limits.client_stall_timeout_s)
}

/// Every route with its layers: a name first, then the count, the size of the headers, the key, the
/// handler.
fn routes(state: AppState) -> axum::Router {
    let generation = axum::Router::new()
        .route(
            "/v1/chat/completions",
            post(generate::chat).fallback(fallback::post_only),
        )
        .route(
            "/v1/completions",
            post(generate::completions).fallback(fallback::post_only),
        );
    let router = axum::Router::new()
        .route("/v1/models", get(models::list))
        .route("/v1/models/{*id}", get(models::get))
        .merge(probes::routes())
        .method_not_allowed_fallback(fallback::get_only)
        .merge(generation)
        .fallback(fallback::not_found)
        .layer(from_fn_with_state(state.clone(), layers::authenticate))
        .layer(from_fn_with_state(
            max_header_bytes(&state),
            layers::bound_headers,
        ))
        .layer(from_fn_with_state(state.clone(), layers::count))
        .layer(from_fn(layers::name_request));
    let router = match layers::cors(&state.config.access.cors_origins) {
        Some(cors) => router.layer(cors),
        None => router,
    };
    router.with_state(state)
}
