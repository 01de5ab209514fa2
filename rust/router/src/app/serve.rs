//! Wiring: builds every part, serves until asked to stop, drains.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Shutdown;
use super::background::{lasting, once};
use super::certificates::Certificates;
use super::listeners::{Bound, Listeners};
use super::pupils::All;
use crate::access::{self, ApiKeys, Bodies, MAX_OPEN_BYTES, Token, Turns};
use crate::admin::{self, AdminListener, AdminService};
use crate::config::{LimitsConfig, RouterConfig};
use crate::error::RouterError;
use crate::fleet::{self, Fleet};
use crate::generation::Generation;
use crate::grpc;
use crate::http;
use crate::listen::{self, Answers, Budget, Incoming, Speaks};
use crate::metrics::{Calls, Endpoint, Exporter, Metrics, Sending};
use crate::state::AppState;
use crate::workers::{Broadcast, CorpusList, Registry, SessionContext, WorkerListener};

/// How long servers may take to send their last bytes after the last request has ended.
const CLOSE_TIME: Duration = Duration::from_secs(2);

/// How many long bodies are parsed at the same time: a list of token ids takes sixteen times its
/// length while it is read.
const NUM_LONG_BODIES: usize = 2;

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

/// What the listeners serve.
struct Services {
    state: AppState,
    broadcast: Arc<Broadcast>,
    workers: WorkerListener,
    /// What goes on with other routers.
    sharing: BoxFuture<'static, ()>,
    /// What brings traces to their collector.
    sending: Option<Sending>,
}

/// What runs until the router ends.
struct Running {
    /// One for each listener: the end of one ends the router.
    servers: JoinSet<Result<(), RouterError>>,
    /// Tasks beside them, which end nothing.
    beside: JoinSet<()>,
    /// What goes on with other routers.
    sharing: JoinHandle<()>,
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
    let (corpus_list, _claim) = match &config.workers.state_dir {
        Some(folder) => CorpusList::open(folder).map(|(list, claim)| (list, Some(claim)))?,
        None => (CorpusList::default(), None),
    };
    let tls = Certificates::load(&config.tls)?;
    let listeners = Listeners::bind(&config).await?;
    let bound = listeners.addresses();

    if keys.is_open() && config.tls.client_ca.is_none() {
        listeners.warn_of_public();
    }

    let closing = CancellationToken::new();
    let services = build(config, keys, token, corpus_list, &closing)?;
    let state = services.state.clone();
    let Running {
        mut servers,
        mut beside,
        sharing,
    } = spawn(listeners, services, &tls, &closing);
    let _followed = tls.follow();
    on_ready(&bound);
    let shown = |address: &Option<String>| address.clone().unwrap_or_else(|| "off".into());
    tracing::info!(http = %shown(&bound.http), grpc = %shown(&bound.grpc),
        worker = %bound.worker, "router listens");

    tokio::select! {
        () = shutdown.requested() => {}
        ended = servers.join_next() => {
            if let Some(Ok(Err(error))) = ended {
                return Err(error);
            }
        }
    }
    let ending = drain(&state, &shutdown).await;
    closing.cancel();
    let close = async {
        while servers.join_next().await.is_some() {}
        while beside.join_next().await.is_some() {}
    };
    tokio::select! {
        // Streams of health watchers never end by themselves.
        _ = timeout(CLOSE_TIME, close) => {}
        () = shutdown.forced() => {}
    }
    // What was left is said to others, and that this router ends, also where nothing else is waited for.
    let _ = timeout(CLOSE_TIME, sharing).await;
    Ok(ending)
}

/// Makes every part of the router.
fn build(
    config: RouterConfig,
    keys: ApiKeys,
    token: Option<Token>,
    corpus_list: CorpusList,
    closing: &CancellationToken,
) -> Result<Services, RouterError> {
    let config = Arc::new(config);
    let metrics = if config.metrics.vllm_names {
        Metrics::new().with_vllm_names()
    } else {
        Metrics::new()
    };
    let metrics = Arc::new(metrics);
    let state_dir = config.workers.state_dir.as_deref();
    let (fleet, texts) = Fleet::new(&config.fleet, &config.limits, state_dir, metrics.clone())?;
    let wait = Duration::from_secs_f64(config.workers.wait_s);
    let registry = Arc::new(Registry::new(wait, &config.limits));
    let generation = Generation::new(
        registry.clone(),
        metrics.clone(),
        config.clone(),
        fleet.clone(),
    );
    let broadcast = Arc::new(Broadcast::new(registry.clone(), corpus_list, fleet.clone()));
    let context = SessionContext {
        registry,
        broadcast: broadcast.clone(),
        fleet: fleet.clone(),
        metrics: metrics.clone(),
        stall_timeout: Duration::from_secs_f64(config.workers.stall_timeout_s),
        shutdown: closing.clone(),
    };
    let pupils = Arc::new(All {
        broadcast: broadcast.clone(),
        generation: generation.clone(),
    });
    let (exporter, sending) = match &config.traces.endpoint {
        Some(given) => {
            let endpoint = Endpoint::parse(given)?;
            Exporter::new(endpoint, metrics.otlp.clone())
                .map(|(one, sending)| (Some(one), Some(sending)))?
        }
        None => (None, None),
    };
    let sample = config.traces.sample;
    let sharing = fleet::run(fleet.clone(), texts, pupils, closing.clone());
    Ok(Services {
        sharing: Box::pin(sharing),
        sending,
        state: AppState {
            generation,
            keys: Arc::new(keys.shared_by(&fleet)),
            bodies: bodies(&config.limits, config.limits.max_unfinished_bytes),
            open_bodies: bodies(&config.limits, MAX_OPEN_BYTES),
            lasting_bodies: bodies(&config.limits, MAX_OPEN_BYTES),
            answers: answers(&config.limits),
            long_bodies: Turns::new(NUM_LONG_BODIES),
            calls: Calls::new(config.log.access, exporter.map(|one| (one, sample))),
            metrics,
            config,
        },
        broadcast,
        workers: WorkerListener::new(context, token),
    })
}

/// Bodies that may hold `max_bytes` while they arrive.
fn bodies(limits: &LimitsConfig, max_bytes: usize) -> Bodies {
    Bodies::new(max_bytes, Duration::from_secs_f64(limits.body_timeout_s))
}

/// What nobody reads may hold what nobody ends to send. A stream ends with its reason first, and can be read then.
fn answers(limits: &LimitsConfig) -> Answers {
    let patience = Duration::from_secs_f64(2.0 * limits.client_stall_timeout_s);
    Answers::new(patience, limits.max_unfinished_bytes as u64)
}

/// Starts one server for each listener, and what runs beside them; they end when `closing` is
/// cancelled.
fn spawn(
    listeners: Listeners,
    services: Services,
    tls: &Certificates,
    closing: &CancellationToken,
) -> Running {
    let Services {
        state,
        broadcast,
        workers,
        sharing,
        sending,
    } = services;
    let budget = Budget::of_process(&state.config.limits);
    let mut beside = JoinSet::new();
    let (keys, ended) = (state.keys.clone(), closing.clone());
    beside.spawn(lasting("keys", async move || {
        access::follow(keys.clone(), ended.clone()).await;
    }));
    let (generation, ended) = (state.generation.clone(), closing.clone());
    beside.spawn(lasting("records", async move || {
        generation.expire_records(ended.clone()).await;
    }));
    let (answers, ended) = (state.answers.clone(), closing.clone());
    beside.spawn(lasting("answers", async move || {
        answers.follow(ended.clone()).await;
    }));
    if let Some(mut sending) = sending {
        let ended = closing.clone();
        beside.spawn(lasting("traces", async move || sending.run(&ended).await));
    }
    let sharing = tokio::spawn(once("fleet", sharing));
    let mut servers = JoinSet::new();
    let dialled = Incoming::new(
        listeners.workers,
        budget.workers,
        Speaks::Http2,
        tls.workers.clone(),
    );
    servers.spawn(grpc::serve_workers(dialled, workers, closing.clone()));
    if let Some(listener) = listeners.grpc {
        let incoming = Incoming::new(
            listener,
            budget.clients.clone(),
            Speaks::Http2,
            tls.grpc.clone(),
        );
        servers.spawn(grpc::serve(incoming, state.clone(), closing.clone()));
    }
    let operators = listeners.admin.as_ref();
    let operators = operators.and_then(|admin| admin.token.clone());
    if let Some(AdminListener { listener, token }) = listeners.admin {
        let service = AdminService::new(broadcast, state.generation.clone());
        let incoming = Incoming::new(
            listener,
            budget.operators.clone(),
            Speaks::Http2,
            tls.grpc.clone(),
        );
        let (answers, closing) = (state.answers.clone(), closing.clone());
        servers.spawn(admin::serve(incoming, token, service, answers, closing));
    }
    if let Some(listener) = listeners.http {
        let incoming = Incoming::new(listener, budget.clients, Speaks::Http1, tls.http.clone());
        let (state, closing) = (state.clone(), closing.clone());
        servers.spawn(async move {
            http::serve(incoming, state, closing).await;
            Ok(())
        });
    }
    if let Some(listener) = listeners.metrics {
        let incoming = Incoming::new(listener, budget.operators, Speaks::Http1, None);
        let closing = closing.clone();
        servers.spawn(async move {
            http::serve_probes(incoming, state, operators, closing).await;
            Ok(())
        });
    }
    Running {
        servers,
        beside,
        sharing,
    }
}

/// Lets running requests end, up to the cap or a second signal; what runs then is cut.
async fn drain(state: &AppState, shutdown: &Shutdown) -> Ending {
    let generation = &state.generation;
    tracing::info!(requests = generation.num_running(), "draining");
    let limit = Duration::from_secs_f64(state.config.runtime.drain_s);
    let drained = tokio::select! {
        drained = timeout(limit, generation.drain()) => drained.is_ok(),
        () = shutdown.forced() => false,
    };
    if drained {
        return Ending::Drained;
    }
    let num_requests = generation.num_running();
    tracing::warn!(requests = num_requests, "requests are cut off");
    generation.cut();
    Ending::Cut { num_requests }
}

/// The token that workers show. A TCP listener needs one or their certificates, because a worker
/// reads prompts.
fn worker_token(config: &RouterConfig) -> Result<Option<Token>, RouterError> {
    match &config.access.worker_token_file {
        Some(path) => Token::from_file(path, "--worker-token-file").map(Some),
        None if listen::unix_path(&config.listen.worker).is_some() => Ok(None),
        None if config.tls.worker_ca.is_some() => Ok(None),
        None => Err(RouterError::Config(format!(
            "listen.worker: {} is a TCP address: set access.worker_token_file \
             (--worker-token-file) or tls.worker_ca (--tls-worker-ca), or listen on unix:PATH",
            config.listen.worker
        ))),
    }
}
