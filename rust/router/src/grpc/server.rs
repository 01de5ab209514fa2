//! Listens for public calls, and for workers.

use std::time::Duration;

use spectrie_proto::v1::inference_server::InferenceServer;
use spectrie_proto::worker_v1::worker_hub_server::WorkerHubServer;
use spectrie_proto::{FILE_DESCRIPTOR_SET, SERVICE_NAME};
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;
use tonic_reflection::server::{v1, v1alpha};
use tower::layer::util::{Identity, Stack};

use super::gate::Gate;
use super::guard::{Budgets, GuardLayer};
use super::inference::InferenceService;
use crate::error::RouterError;
use crate::listen::Incoming;
use crate::state::AppState;
use crate::workers::WorkerListener;

/// Largest message of a worker: artifacts come in chunks, a step's output is small.
const MAX_WORKER_MESSAGE_BYTES: usize = 16 << 20;
/// How often an idle connection is asked whether it lives, and how long it may think.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Streams that a peer may reset before they were accepted: the bound against rapid resets.
const MAX_PENDING_RESETS: usize = 20;

/// Serves the public API until `shutdown`, then until the last stream has ended.
pub(crate) async fn serve(
    incoming: Incoming,
    state: AppState,
    shutdown: CancellationToken,
) -> Result<(), RouterError> {
    let limits = &state.config.limits;
    let max_message_bytes = limits.max_message_bytes;
    let (reporter, health) = tonic_health::server::health_reporter();
    let failed = |message: String| RouterError::Serve {
        name: "grpc",
        message,
    };
    let (reflection_v1, reflection_v1alpha) = reflection(FILE_DESCRIPTOR_SET).map_err(failed)?;
    let inference = InferenceServer::new(InferenceService::new(state.clone()))
        .max_decoding_message_size(max_message_bytes);
    let gate = Gate::Keys {
        keys: state.keys.clone(),
        is_reflection_open: state.config.access.open_introspection,
        metrics: state.metrics.clone(),
        calls: state.calls.clone(),
    };
    let router = configured(GuardLayer::new(
        gate,
        max_message_bytes,
        Budgets {
            keyed: state.bodies.clone(),
            open: state.open_bodies.clone(),
            lasting: state.lasting_bodies.clone(),
        },
        state.answers.clone(),
    ))
    .max_concurrent_streams(limits.max_concurrent_streams)
    .http2_max_header_list_size(limits.max_header_bytes)
    .add_service(inference)
    .add_service(health)
    .add_service(reflection_v1)
    .add_service(reflection_v1alpha);
    let served =
        router.serve_with_incoming_shutdown(incoming.stream(), shutdown.clone().cancelled_owned());
    let watched = async {
        watch_health(&state, &reporter).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        served = served => served.map_err(|error| failed(error.to_string())),
        () = watched => Ok(()),
    }
}

/// Serves the workers' side until `shutdown`.
pub(crate) async fn serve_workers(
    incoming: Incoming,
    workers: WorkerListener,
    shutdown: CancellationToken,
) -> Result<(), RouterError> {
    let service = WorkerHubServer::new(workers).max_decoding_message_size(MAX_WORKER_MESSAGE_BYTES);
    kept_alive(Server::builder())
        .add_service(service)
        .serve_with_incoming_shutdown(incoming.stream(), shutdown.cancelled_owned())
        .await
        .map_err(|error| RouterError::Serve {
            name: "worker",
            message: error.to_string(),
        })
}

/// A server whose calls pass `guard`, and whose connections are watched.
pub(crate) fn configured(guard: GuardLayer) -> Server<Stack<GuardLayer, Identity>> {
    kept_alive(Server::builder()).layer(guard)
}

/// Reflection over the files of a descriptor set and those of health, in both of its versions.
///
/// # Errors
/// A set that cannot be read.
pub(crate) fn reflection(
    descriptors: &'static [u8],
) -> Result<
    (
        v1::ServerReflectionServer<impl v1::ServerReflection>,
        v1alpha::ServerReflectionServer<impl v1alpha::ServerReflection>,
    ),
    String,
> {
    let builder = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(descriptors)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let v1 = builder().build_v1().map_err(|error| error.to_string())?;
    let v1alpha = builder().build_v1alpha();
    Ok((v1, v1alpha.map_err(|error| error.to_string())?))
}

fn kept_alive(server: Server) -> Server {
    server
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .http2_max_pending_accept_reset_streams(Some(MAX_PENDING_RESETS))
}

/// Keeps the health service true until draining begins: `""` is the router itself, the service's
/// name says whether a request would find a worker.
async fn watch_health(state: &AppState, reporter: &HealthReporter) {
    let generation = &state.generation;
    let mut changes = generation.changes();
    let mut told = None;
    loop {
        changes.mark_unchanged();
        let is_draining = generation.draining().is_cancelled();
        let now = (!is_draining, generation.is_ready());
        // Watchers hear every call, also one that changes nothing.
        if told.replace(now) != Some(now) {
            reporter.set_service_status("", status(now.0)).await;
            reporter
                .set_service_status(SERVICE_NAME, status(now.1))
                .await;
        }
        if is_draining {
            return;
        }
        tokio::select! {
            _ = changes.changed() => {}
            () = generation.draining().cancelled() => {}
        }
    }
}

fn status(is_serving: bool) -> ServingStatus {
    if is_serving {
        ServingStatus::Serving
    } else {
        ServingStatus::NotServing
    }
}
