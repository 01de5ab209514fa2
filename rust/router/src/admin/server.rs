//! Listens for operators.

use std::time::Duration;

use spectrie_proto::v1::admin_server::AdminServer;
use spectrie_proto::{ADMIN_FILE_DESCRIPTOR_SET, ADMIN_SERVICE_NAME};
use tokio_util::sync::CancellationToken;
use tonic_health::ServingStatus;

use super::service::AdminService;
use crate::access::{Bodies, MAX_OPEN_BYTES, Token};
use crate::config::AccessConfig;
use crate::error::RouterError;
use crate::grpc::{self, Budgets, Gate, GuardLayer};
use crate::listen::{Answers, Incoming, Listener};

/// Anyone who can open this socket decides what requests draft from, and reads tenants' names.
const SOCKET_MODE: u32 = 0o600;
/// Largest question, in bytes: a list of namespaces.
const MAX_MESSAGE_BYTES: usize = 1 << 20;
/// Unfinished questions of all operators, in bytes.
const MAX_UNFINISHED_BYTES: usize = 16 << 20;
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
const OPTION: &str = "--admin";

/// The operators' listener, and what they must show there.
#[derive(Debug)]
pub(crate) struct AdminListener {
    pub(crate) listener: Listener,
    pub(crate) token: Option<Token>,
}

/// Opens the listener.
///
/// # Errors
/// An address that cannot be used, a token file that cannot be read, or a TCP address that other
/// machines reach without a token.
pub(crate) async fn bind(
    address: &str,
    access: &AccessConfig,
) -> Result<AdminListener, RouterError> {
    let token = match &access.admin_token_file {
        Some(path) => Some(Token::from_file(path, "--admin-token-file")?),
        None => None,
    };
    let listener = Listener::bind(address, SOCKET_MODE, OPTION).await?;
    if listener.is_public() && token.is_none() {
        return Err(RouterError::Config(format!(
            "listen.admin: other machines can reach {address}: set access.admin_token_file \
             (--admin-token-file), or listen on unix:PATH or 127.0.0.1"
        )));
    }
    Ok(AdminListener { listener, token })
}

/// Serves operators, who show `token`, until `shutdown`.
pub(crate) async fn serve(
    incoming: Incoming,
    token: Option<Token>,
    service: AdminService,
    answers: Answers,
    shutdown: CancellationToken,
) -> Result<(), RouterError> {
    let failed = |message: String| RouterError::Serve {
        name: "admin",
        message,
    };
    let (reporter, health) = tonic_health::server::health_reporter();
    for name in ["", ADMIN_SERVICE_NAME] {
        reporter
            .set_service_status(name, ServingStatus::Serving)
            .await;
    }
    let (reflection_v1, reflection_v1alpha) =
        grpc::reflection(ADMIN_FILE_DESCRIPTOR_SET).map_err(failed)?;
    let service = AdminServer::new(service).max_decoding_message_size(MAX_MESSAGE_BYTES);
    let limits = [MAX_UNFINISHED_BYTES, MAX_OPEN_BYTES, MAX_OPEN_BYTES];
    let [keyed, open, lasting] = limits.map(|limit| Bodies::new(limit, BODY_TIMEOUT));
    grpc::configured(GuardLayer::new(
        Gate::Token(token),
        MAX_MESSAGE_BYTES,
        Budgets {
            keyed,
            open,
            lasting,
        },
        answers,
    ))
    .add_service(service)
    .add_service(health)
    .add_service(reflection_v1)
    .add_service(reflection_v1alpha)
    .serve_with_incoming_shutdown(incoming.stream(), shutdown.cancelled_owned())
    .await
    .map_err(|error| failed(error.to_string()))
}
