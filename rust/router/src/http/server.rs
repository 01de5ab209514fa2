//! The HTTP listener: bounded headers, bounded waiting, and a graceful end. HTTP/1.1, and HTTP/2 where
//! TLS agreed on it.

use std::time::Duration;

use http::Request;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio_util::sync::CancellationToken;
use tower::util::MapRequest;

use crate::listen::{Incoming, Speaks};

use super::unstalled::Unstalled;

/// How long a connection may take to send a whole header, or stay idle between two requests.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum header fields of a request.
const MAX_HEADERS: usize = 128;

/// How often an idle HTTP/2 connection is asked whether it lives, and how long it may think.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Concurrent streams of one HTTP/2 connection.
const MAX_STREAMS: u32 = 256;
/// Streams that a peer may reset before they were accepted: the bound against rapid resets.
const MAX_PENDING_RESETS: usize = 20;

/// The parser takes this many times the limit, so that a layer can answer in OpenAI's shape; what is
/// larger still gets a bare 431.
const PARSED_LIMITS: usize = 4;

/// Serves `router` until `shutdown`, then until the last response has ended. Requests carry the
/// place of their connection.
pub(super) async fn run(
    mut incoming: Incoming,
    router: axum::Router,
    max_header_bytes: usize,
    client_stall: Duration,
    shutdown: CancellationToken,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_header_size(max_header_bytes.saturating_mul(PARSED_LIMITS))
        .max_headers(MAX_HEADERS);
    let mut http2 = http2::Builder::new(TokioExecutor::new());
    http2
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(KEEPALIVE_INTERVAL))
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .max_concurrent_streams(MAX_STREAMS)
        .max_pending_accept_reset_streams(MAX_PENDING_RESETS)
        .max_header_list_size(u32::try_from(max_header_bytes).unwrap_or(u32::MAX));
    let graceful = GracefulShutdown::new();
    loop {
        let connection = tokio::select! {
            () = shutdown.cancelled() => break,
            connection = incoming.accept() => connection,
        };
        let place = connection.place().clone();
        let service = MapRequest::new(router.clone(), move |mut request: Request<_>| {
            request.extensions_mut().insert(place.clone());
            request
        });
        let service = TowerToHyperService::new(service);
        let watcher = graceful.watcher();
        let speaks = connection.speaks();
        let bytes = TokioIo::new(Unstalled::new(connection, client_stall));
        let (http, http2) = (http.clone(), http2.clone());
        tokio::spawn(async move {
            let ended = match speaks {
                Speaks::Http1 => watcher.watch(http.serve_connection(bytes, service)).await,
                Speaks::Http2 => watcher.watch(http2.serve_connection(bytes, service)).await,
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended early");
            }
        });
    }
    drop(incoming);
    graceful.shutdown().await;
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::middleware::{from_fn, from_fn_with_state};
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use tokio::sync::Notify;

    use super::*;
    use crate::config::LimitsConfig;
    use crate::http::{fallback, layers};
    use crate::listen::{Budget, Listener};

    const LIMIT: usize = 16 << 10;
    const STALL: Duration = Duration::from_secs(60);

    async fn start(
        router: axum::Router,
    ) -> (SocketAddr, CancellationToken, tokio::task::JoinHandle<()>) {
        let router = router
            .fallback(fallback::not_found)
            .layer(from_fn_with_state(LIMIT, layers::bound_headers))
            .layer(from_fn(layers::name_request));
        let listener = Listener::tcp("127.0.0.1:0", "--http").await.unwrap();
        let address = listener.address.parse().unwrap();
        let shutdown = CancellationToken::new();
        let places = Budget::of_process(&LimitsConfig::default()).clients;
        let incoming = Incoming::new(listener, places, Speaks::Http1, None);
        let task = tokio::spawn(run(incoming, router, LIMIT, STALL, shutdown.clone()));
        (address, shutdown, task)
    }

    async fn exchange(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        String::from_utf8(answer).unwrap()
    }

    fn request(path: &str, headers: &str) -> String {
        format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n")
    }

    #[tokio::test]
    async fn large_headers_are_431_in_openai_shape() {
        let (address, ..) = start(axum::Router::new()).await;
        let large = format!("x-large: {}\r\n", "a".repeat(LIMIT));
        let answer = exchange(address, &request("/", &large)).await;
        assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
        assert!(answer.contains("allowed: up to 16384 bytes"), "{answer}");
    }

    #[tokio::test]
    async fn request_names_are_checked_and_sent_back() {
        let (address, ..) = start(axum::Router::new()).await;
        let answer = exchange(address, &request("/", "x-request-id: abc-1\r\n")).await;
        assert!(answer.contains("x-request-id: abc-1\r\n"), "{answer}");
        assert!(answer.contains("\"code\":\"unknown_url\""), "{answer}");
        let answer = exchange(address, &request("/", "x-request-id: a b\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
        assert!(answer.contains("\"param\":\"x-request-id\""), "{answer}");
        let answer = exchange(address, &request("/", "")).await;
        assert!(answer.contains("x-request-id: "), "{answer}");
    }

    #[tokio::test]
    async fn panic_in_a_handler_is_a_500_without_internals() {
        async fn broken() -> &'static str {
            panic!("secret")
        }
        let (address, ..) = start(axum::Router::new().route("/broken", get(broken))).await;
        let answer = exchange(address, &request("/broken", "x-request-id: r7\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 500"), "{answer}");
        assert!(
            answer.contains("internal failure in request r7"),
            "{answer}"
        );
        assert!(!answer.contains("secret"), "{answer}");
    }

    #[tokio::test]
    async fn shutdown_waits_for_running_responses_and_takes_no_new_ones() {
        static ENTERED: Notify = Notify::const_new();
        static LEAVE: Notify = Notify::const_new();
        async fn slow() -> &'static str {
            ENTERED.notify_one();
            LEAVE.notified().await;
            "done"
        }
        let (address, shutdown, task) = start(axum::Router::new().route("/slow", get(slow))).await;
        let answer = tokio::spawn(async move { exchange(address, &request("/slow", "")).await });
        ENTERED.notified().await;
        shutdown.cancel();
        // Once the listener is closed no client can connect.
        while TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
        assert!(!task.is_finished());
        LEAVE.notify_one();
        assert!(answer.await.unwrap().ends_with("done"));
        task.await.unwrap();
    }
}
