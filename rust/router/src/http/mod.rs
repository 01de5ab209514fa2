//! OpenAI HTTP, probes and metrics.

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::app::AppState;

/// Serves OpenAI's routes, probes and metrics until `shutdown`; then takes no new connection and
/// returns when the last response has ended.
///
/// # Errors
/// What the system says when the listener breaks.
pub async fn serve(
    listener: TcpListener,
    _state: AppState,
    shutdown: CancellationToken,
) -> std::io::Result<()> {
    axum::serve(listener, axum::Router::new())
        .with_graceful_shutdown(shutdown.cancelled_owned())
        .await
}

/// Serves probes and metrics alone, as [`serve`] does.
///
/// # Errors
/// What the system says when the listener breaks.
pub async fn serve_probes(
    listener: TcpListener,
    _state: AppState,
    shutdown: CancellationToken,
) -> std::io::Result<()> {
    axum::serve(listener, axum::Router::new())
        .with_graceful_shutdown(shutdown.cancelled_owned())
        .await
}
