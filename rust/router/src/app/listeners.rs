//! The sockets of a router, opened before anything runs.

use serde::Serialize;

use crate::admin::{self, AdminListener};
use crate::config::RouterConfig;
use crate::error::RouterError;
use crate::listen::Listener;

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
    pub(super) workers: Listener,
    pub(super) grpc: Option<Listener>,
    pub(super) http: Option<Listener>,
    pub(super) metrics: Option<Listener>,
    pub(super) admin: Option<AdminListener>,
}

impl Listeners {
    /// Opens all of them.
    ///
    /// # Errors
    /// The first address that cannot be used.
    pub(super) async fn bind(config: &RouterConfig) -> Result<Self, RouterError> {
        let listen = &config.listen;
        let workers = Listener::bind(&listen.worker, WORKER_SOCKET_MODE, "--worker-listen").await?;
        let grpc = match &listen.grpc {
            Some(address) => Some(Listener::bind(address, PUBLIC_SOCKET_MODE, "--grpc").await?),
            None => None,
        };
        let http = match &listen.http {
            Some(address) => Some(Listener::tcp(address, "--http").await?),
            None => None,
        };
        let metrics = match &listen.metrics {
            Some(address) => Some(Listener::tcp(address, "--metrics-listen").await?),
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

    /// Warns of listeners of clients that other machines reach, for a router without keys.
    pub(super) fn warn_of_public(&self) {
        for (option, listener) in [("--http", &self.http), ("--grpc", &self.grpc)] {
            if let Some(listener) = listener.as_ref().filter(|listener| listener.is_public()) {
                tracing::warn!(address = %listener.address, "everyone who reaches {option} may use \
                    the model: set --api-keys or --tls-client-ca, or listen on 127.0.0.1");
            }
        }
    }

    /// Where they listen.
    pub(super) fn addresses(&self) -> Bound {
        let address = |listener: &Option<Listener>| {
            let listener = listener.as_ref();
            listener.map(|listener| listener.address.clone())
        };
        let admin = self.admin.as_ref();
        Bound {
            http: address(&self.http),
            grpc: address(&self.grpc),
            worker: self.workers.address.clone(),
            metrics: address(&self.metrics),
            admin: admin.map(|admin| admin.listener.address.clone()),
        }
    }
}
