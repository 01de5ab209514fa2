//! Routes, and the listeners that serve them.

use std::time::Duration;

use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};
use tokio_util::sync::CancellationToken;

use super::hosts::{self, AllowedHosts};
use super::probes::Operators;
use super::{fallback, generate, layers, models, probes, server, unread};
use crate::access::Token;
use crate::listen::Incoming;
use crate::state::AppState;

/// Serves OpenAI's routes, probes and metrics until `shutdown`; then takes no new connection and
/// returns when the last response has ended.
pub(crate) async fn serve(incoming: Incoming, state: AppState, shutdown: CancellationToken) {
    let (max_header_bytes, stall) = (max_header_bytes(&state), client_stall(&state));
    // Only a page that is shown on this machine reaches such a listener by another name.
    let access = &state.config.access;
    let is_private = incoming.is_private() && state.keys.is_open();
    let hosts = is_private.then(|| AllowedHosts::from(access.allowed_hosts.clone()));
    let router = routes(state, hosts);
    server::run(incoming, router, max_header_bytes, stall, shutdown).await;
}

/// Serves probes, metrics and what operators ask alone, as [`serve`] does; operators show `token`.
pub(crate) async fn serve_probes(
    incoming: Incoming,
    state: AppState,
    token: Option<Token>,
    shutdown: CancellationToken,
) {
    let allowed = || AllowedHosts::from(state.config.access.allowed_hosts.clone());
    let operators = match token {
        Some(token) => Operators::With(token),
        None if incoming.is_private() => Operators::Here(allowed()),
        None => Operators::Nobody,
    };
    let (max_header_bytes, stall) = (max_header_bytes(&state), client_stall(&state));
    let router = probes::routes()
        .merge(probes::debug_routes(operators))
        .fallback(fallback::not_found)
        .method_not_allowed_fallback(fallback::get_only)
        .layer(from_fn(unread::read_rest))
        .with_state(state);
    server::run(incoming, router, max_header_bytes, stall, shutdown).await;
}

fn max_header_bytes(state: &AppState) -> usize {
    state.config.limits.max_header_bytes as usize
}

fn client_stall(state: &AppState) -> Duration {
    Duration::from_secs_f64(state.config.limits.client_stall_timeout_s)
}

/// Every route with its layers: the rest of its body is read last; how it is sent comes first, then what becomes of it,
/// then a name, the host, the count, the size of the headers, the key and a place, the handler.
fn routes(state: AppState, hosts: Option<AllowedHosts>) -> axum::Router {
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
        .route("/v1/streams/{id}", get(generate::resume))
        .merge(probes::routes())
        .merge(probes::described())
        .method_not_allowed_fallback(fallback::get_only)
        .merge(generation)
        .fallback(fallback::not_found)
        .layer(from_fn_with_state(state.clone(), layers::authenticate))
        .layer(from_fn_with_state(
            max_header_bytes(&state),
            layers::bound_headers,
        ))
        .layer(from_fn_with_state(state.clone(), layers::count));
    let router = match hosts {
        Some(hosts) => router.layer(from_fn_with_state(hosts, hosts::check_host)),
        None => router,
    };
    let router = router.layer(from_fn(layers::name_request));
    let noted = from_fn_with_state(state.calls.clone(), layers::note_call);
    let router = router.layer(noted);
    let router = router.layer(from_fn_with_state(state.clone(), layers::send));
    let router = match layers::cors(&state.config.access.cors_origins) {
        Some(cors) => router.layer(cors),
        None => router,
    };
    router.layer(from_fn(unread::read_rest)).with_state(state)
}
