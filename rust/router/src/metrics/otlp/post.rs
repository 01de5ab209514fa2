//! One batch, posted over a connection of its own.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::{Request, StatusCode};
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

use super::endpoint::Endpoint;
use crate::error::RouterError;

/// How long a collector may take for a batch of spans.
const PATIENCE: Duration = Duration::from_secs(10);
/// The same for metrics: spans wait meanwhile, and the next metrics hold these too.
const METRICS_PATIENCE: Duration = Duration::from_secs(2);

/// Why a collector did not take a batch.
#[derive(Debug, Error)]
pub(super) enum Trouble {
    /// It may take the batch later.
    #[error("it answered {0}")]
    Busy(StatusCode),
    /// It never will.
    #[error("it refused a batch with {0}")]
    Refused(StatusCode),
    #[error("it cannot be reached: {0}")]
    Unreachable(#[from] io::Error),
    #[error("it does not answer as HTTP does: {0}")]
    Broken(#[from] hyper::Error),
    #[error("it took longer than {} s", .0.as_secs())]
    Slow(Duration),
    #[error("its name is none that a certificate can prove")]
    Unnamed,
}

/// Reaches one collector.
#[derive(Clone)]
pub(super) struct Collector {
    endpoint: Endpoint,
    tls: Option<TlsConnector>,
}

impl Collector {
    /// # Errors
    /// [`RouterError::Config`] where TLS is asked for and the system knows no authorities.
    pub(super) fn new(endpoint: Endpoint) -> Result<Self, RouterError> {
        let tls = endpoint.is_tls.then(connector).transpose()?;
        Ok(Self { endpoint, tls })
    }

    /// Posts an encoded batch of spans.
    pub(super) async fn post(&self, spans: Bytes) -> Result<(), Trouble> {
        self.post_to(&self.endpoint.traces, spans, PATIENCE).await
    }

    /// Posts encoded metrics.
    pub(super) async fn post_metrics(&self, metrics: Bytes) -> Result<(), Trouble> {
        let path = &self.endpoint.metrics;
        self.post_to(path, metrics, METRICS_PATIENCE).await
    }

    async fn post_to(&self, path: &str, batch: Bytes, patience: Duration) -> Result<(), Trouble> {
        let posted = timeout(patience, self.connect_and_post(path, batch)).await;
        posted.unwrap_or(Err(Trouble::Slow(patience)))
    }

    async fn connect_and_post(&self, path: &str, batch: Bytes) -> Result<(), Trouble> {
        let Endpoint { host, port, .. } = &self.endpoint;
        let stream = TcpStream::connect((host.as_str(), *port)).await?;
        match &self.tls {
            None => self.post_over(stream, path, batch).await,
            Some(tls) => {
                let name = ServerName::try_from(host.clone()).map_err(|_| Trouble::Unnamed)?;
                let stream = tls.connect(name, stream).await?;
                self.post_over(stream, path, batch).await
            }
        }
    }

    async fn post_over<S>(&self, stream: S, path: &str, batch: Bytes) -> Result<(), Trouble>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let mut request = Request::new(Full::new(batch));
        *request.method_mut() = http::Method::POST;
        // What was parsed is written back, so it can be read again.
        *request.uri_mut() = path.parse().unwrap_or_default();
        let headers = request.headers_mut();
        let protobuf = http::HeaderValue::from_static("application/x-protobuf");
        headers.insert(CONTENT_TYPE, protobuf);
        if let Ok(host) = self.endpoint.authority().parse() {
            headers.insert(HOST, host);
        }
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let _driven = AbortOnDropHandle::new(tokio::spawn(connection));
        match sender.send_request(request).await?.status() {
            status if status.is_success() => Ok(()),
            status if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() => {
                Err(Trouble::Busy(status))
            }
            status => Err(Trouble::Refused(status)),
        }
    }
}

/// TLS by the authorities that the system trusts.
fn connector() -> Result<TlsConnector, RouterError> {
    let refuse = |reason: &str| {
        RouterError::Config(format!(
            "traces.endpoint (--otlp-endpoint): https: {reason}"
        ))
    };
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(refuse("this system has no certificates of authorities"));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| refuse(&error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
