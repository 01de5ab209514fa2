//! The sockets of a router, opened before anything runs.

use serde::Serialize;
use tokio::net::TcpListener;

use crate::admin::{self, AdminListener};
use crate::config::RouterConfig;
use crate::error::RouterError;
use crate::listen::{self, GrpcListener};

/// Anyone who can open this socket can join as a worker and read prompts.
const WORKER_SOCKET_MODE: u32 = 0o600;
/// The application beside a sidecar may run as another user of the same group.
const PUBLIC_SOCKET_MODE: u32 = 0o660;

/// The addresses in use, with the ports that were free.
#[derive(Clone, Debug, Serialize)]
pub struct Bound {
    /// `HOST:PORT` of OpenAI HTTP.
    pub http: Option<String>,
    /// `HOST:PORT` or `unix:PATH` of public gRPC.
    pub grpc: Option<String>,
    /// `HOST:PORT` or `unix:PATH` that workers dial.
    pub worker: String,
    /// `HOST:PORT` of probes and metrics alone.
    pub metrics: Option<String>,
    /// `HOST:PORT` or `unix:PATH` of operators' gRPC.
    pub admin: Option<String>,
}

impl Bound {
    /// The addresses as one line of JSON, with the members of this struct.
    ///
    /// # Errors
    /// None in practice: strings and absences can always be written.
    pub fn to_json(&self) -> Result<String, RouterError> {
        serde_json::to_string(self).map_err(|error| RouterError::Config(error.to_string()))
    }
}

/// Every listener that the configuration asks for.
#[derive(Debug)]
pub(super) struct Listeners {
    pub(super) workers: GrpcListener,
    pub(super) grpc: Option<GrpcListener>,
    pub(super) http: Option<TcpListener>,
    pub(super) metrics: Option<TcpListener>,
    pub(super) admin: Option<AdminListener>,
}

impl Listeners {
    /// Opens all of them.
    ///
    /// # Errors
    /// The first address that cannot be used.
    pub(super) async fn bind(config: &RouterConfig) -> Result<Self, RouterError> {
        let listen = &config.listen;
        let workers =
            GrpcListener::bind(&listen.worker, WORKER_SOCKET_MODE, "--worker-listen").await?;
        let grpc = match &listen.grpc {
            Some(address) => Some(GrpcListener::bind(address, PUBLIC_SOCKET_MODE, "--grpc").await?),
            None => None,
        };
        let http = match &listen.http {
            Some(address) => Some(listen::tcp(address, "--http").await?),
            None => None,
        };
        let metrics = match &listen.metrics {
            Some(address) => Some(listen::tcp(address, "--metrics-listen").await?),
            None => None,
        };
        let admin = match &listen.admin {
            Some(address) => Some(admin::bind(address, &config.access).await?),
            None => None,
        };
        Ok(Self {
            workers,
            grpc,
            http,
            metrics,
            admin,
        })
    }

    /// Where they listen.
    ///
    /// # Errors
    /// What the system says of a socket without an address.
    pub(super) fn addresses(&self) -> Result<Bound, RouterError> {
        let local = |listener: &TcpListener| listener.local_addr().map(|at| at.to_string());
        Ok(Bound {
            http: self.http.as_ref().map(local).transpose()?,
            grpc: self.grpc.as_ref().map(|grpc| grpc.address.clone()),
            worker: self.workers.address.clone(),
            metrics: self.metrics.as_ref().map(local).transpose()?,
            admin: self
                .admin
                .as_ref()
                .map(|admin| admin.listener.address.clone()),
        })
    }
}
