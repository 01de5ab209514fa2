//! The HTTP/1.1 listener: bounded headers, bounded waiting, and a graceful end.

use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::unstalled::Unstalled;

/// How long a connection may take to send a whole header, or stay idle between two requests.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum header fields of a request.
const MAX_HEADERS: usize = 128;

/// The parser takes this many times the limit, so that a layer can answer in OpenAI's shape; what is
/// larger still gets a bare 431.
const PARSED_LIMITS: usize = 4;

/// Pause after a failed accept, so that a process without free file descriptors does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves `router` until `shutdown`, then until the last response has ended.
pub(super) async fn run(
    listener: TcpListener,
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
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // Tokens are small and must not wait to be sent together.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "could not turn off delays");
        }
        let service = TowerToHyperService::new(router.clone());
        let connection =
            http.serve_connection(TokioIo::new(Unstalled::new(stream, client_stall)), service);
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended early");
            }
        });
    }
    drop(listener);
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
    use crate::http::{fallback, layers};

    const LIMIT: usize = 16 << 10;
    const STALL: Duration = Duration::from_secs(60);

    async fn start(
        router: axum::Router,
    ) -> (SocketAddr, CancellationToken, tokio::task::JoinHandle<()>) {
        let router = router
            .fallback(fallback::not_found)
            .layer(from_fn_with_state(LIMIT, layers::bound_headers))
            .layer(from_fn(layers::name_request));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(run(listener, router, LIMIT, STALL, shutdown.clone()));
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
