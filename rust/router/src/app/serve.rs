//! Wiring: builds every part, serves until told to stop, drains.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Shutdown;
use crate::access::ApiKeys;
use crate::access::Token;
use crate::admin::{self, AdminService};
use crate::config::RouterConfig;
use crate::error::RouterError;
use crate::generation::Generation;
use crate::grpc;
use crate::http;
use crate::listen::{self, GrpcListener};
use crate::metrics::Metrics;
use crate::workers::{Fleet, Hub, Registry, Roster, SessionContext};

/// How long servers may take to send their last bytes after the last request has ended.
const CLOSE_TIME: Duration = Duration::from_secs(2);
/// Whoever may open this socket joins as a worker and reads prompts.
const WORKER_SOCKET_MODE: u32 = 0o600;
/// The application beside a sidecar may run as another user of the same group.
const PUBLIC_SOCKET_MODE: u32 = 0o660;

/// What every API handler needs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct AppState {
    /// Runs requests.
    pub generation: Generation,
    /// Says who calls.
    pub keys: Arc<ApiKeys>,
    /// Counts.
    pub metrics: Arc<Metrics>,
    /// What the router was told.
    pub config: Arc<RouterConfig>,
}

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

/// How a router ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Every request had ended.
    Drained,
    /// Requests were cut off: the drain took too long or was cut short.
    Cut {
        /// How many.
        num_requests: usize,
    },
}

/// Serves until `shutdown`; `on_ready` hears the addresses once all of them accept.
///
/// # Errors
/// A file or address that cannot be used, or a server that broke.
pub async fn serve(
    config: RouterConfig,
    on_ready: impl FnOnce(&Bound),
    shutdown: Shutdown,
) -> Result<Ending, RouterError> {
    let keys = match &config.access.api_keys_file {
        Some(path) => ApiKeys::from_file(path)?,
        None => ApiKeys::open(),
    };
    let token = worker_token(&config)?;
    let (roster, _claim) = match &config.workers.state_dir {
        Some(folder) => Roster::open(folder).map(|(roster, claim)| (roster, Some(claim)))?,
        None => (Roster::default(), None),
    };
    let listen = config.listen.clone();
    let workers = GrpcListener::bind(&listen.worker, WORKER_SOCKET_MODE, "--worker-listen").await?;
    let grpc_listener = match &listen.grpc {
        Some(address) => Some(GrpcListener::bind(address, PUBLIC_SOCKET_MODE, "--grpc").await?),
        None => None,
    };
    let http_listener = match &listen.http {
        Some(address) => Some(listen::tcp(address, "--http").await?),
        None => None,
    };
    let metrics_listener = match &listen.metrics {
        Some(address) => Some(listen::tcp(address, "--metrics-listen").await?),
        None => None,
    };
    let admin_listener = match &listen.admin {
        Some(address) => Some(admin::bind(address, &config.access).await?),
        None => None,
    };
    let local = |listener: &tokio::net::TcpListener| listener.local_addr().map(|at| at.to_string());
    let bound = Bound {
        http: http_listener.as_ref().map(local).transpose()?,
        grpc: grpc_listener
            .as_ref()
            .map(|listener| listener.address.clone()),
        worker: workers.address.clone(),
        metrics: metrics_listener.as_ref().map(local).transpose()?,
        admin: admin_listener
            .as_ref()
            .map(|admin| admin.listener.address.clone()),
    };

    let config = Arc::new(config);
    let metrics = Arc::new(Metrics::new());
    let registry = Arc::new(Registry::new(
        Duration::from_secs_f64(config.workers.wait_s),
        &config.limits,
    ));
    let generation = Generation::new(registry.clone(), metrics.clone(), config.clone());
    let state = AppState {
        generation: generation.clone(),
        keys: Arc::new(keys),
        metrics: metrics.clone(),
        config: config.clone(),
    };
    let closing = CancellationToken::new();
    let fleet = Arc::new(Fleet::new(registry.clone(), roster));
    let context = SessionContext {
        registry,
        fleet: fleet.clone(),
        metrics,
        stall_timeout: Duration::from_secs_f64(config.workers.stall_timeout_s),
        shutdown: closing.clone(),
    };
    let hub = Hub::new(context, token);

    let mut servers = JoinSet::new();
    servers.spawn(grpc::serve_workers(workers, hub, closing.clone()));
    if let Some(listener) = grpc_listener {
        servers.spawn(grpc::serve(listener, state.clone(), closing.clone()));
    }
    let failed = |name| {
        move |error: std::io::Error| RouterError::Serve {
            name,
            message: error.to_string(),
        }
    };
    if let Some(admin) = admin_listener {
        let service = AdminService::new(fleet, admin.token.clone());
        servers.spawn(admin::serve(admin, service, closing.clone()));
    }
    if let Some(listener) = http_listener {
        let serving = http::serve(listener, state.clone(), closing.clone());
        servers.spawn(async move { serving.await.map_err(failed("http")) });
    }
    if let Some(listener) = metrics_listener {
        let serving = http::serve_probes(listener, state, closing.clone());
        servers.spawn(async move { serving.await.map_err(failed("metrics")) });
    }
    on_ready(&bound);
    let shown = |address: &Option<String>| address.clone().unwrap_or_else(|| "off".into());
    tracing::info!(http = %shown(&bound.http), grpc = %shown(&bound.grpc),
        worker = %bound.worker, "router ready");

    tokio::select! {
        () = shutdown.requested() => {}
        ended = servers.join_next() => {
            if let Some(Ok(Err(error))) = ended {
                return Err(error);
            }
        }
    }
    let ending = drain(&generation, &config, &shutdown).await;
    closing.cancel();
    let close = async { while servers.join_next().await.is_some() {} };
    tokio::select! {
        // Streams of health watchers never end by themselves.
        _ = timeout(CLOSE_TIME, close) => {}
        () = shutdown.forced() => {}
    }
    Ok(ending)
}

/// Lets running requests end, up to the cap or a second signal.
async fn drain(generation: &Generation, config: &RouterConfig, shutdown: &Shutdown) -> Ending {
    tracing::info!(requests = generation.num_running(), "draining");
    let limit = Duration::from_secs_f64(config.runtime.drain_s);
    let drained = tokio::select! {
        drained = timeout(limit, generation.drain()) => drained.is_ok(),
        () = shutdown.forced() => false,
    };
    if drained {
        return Ending::Drained;
    }
    let num_requests = generation.num_running();
    tracing::warn!(requests = num_requests, "requests are cut off");
    Ending::Cut { num_requests }
}

/// The token that workers show. A TCP listener needs one: whoever joins as a worker reads prompts.
fn worker_token(config: &RouterConfig) -> Result<Option<Token>, RouterError> {
    match &config.access.worker_token_file {
        Some(path) => Token::from_file(path, "--worker-token-file").map(Some),
        None if listen::unix_path(&config.listen.worker).is_some() => Ok(None),
        None => Err(RouterError::Config(format!(
            "listen.worker: {} is a TCP address, which needs access.worker_token_file \
             (--worker-token-file); unix:PATH does not",
            config.listen.worker
        ))),
    }
}
