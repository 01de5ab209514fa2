//! What callers hear when no worker takes their request.

use std::time::Duration;

use spectrie_types::Standing;

use crate::error::{ErrorKind, RequestError};
use crate::workers::Refusal;

/// How long a caller is asked to wait before it tries again: about the time a worker restarts in.
pub(crate) const RETRY_DELAY: Duration = Duration::from_secs(1);

/// What a caller hears when no worker takes its request.
pub(crate) fn refused(refusal: Refusal, name: Option<&str>) -> RequestError {
    match refusal {
        Refusal::Unknown(served) => {
            RequestError::model_not_found(name.unwrap_or_default(), &served)
        }
        Refusal::Ambiguous(served) => RequestError::invalid(
            "model",
            format!("required, one of the served models: {}", served.join(", ")),
        ),
        Refusal::Full {
            own,
            share,
            limit,
            retry_after,
        } => RequestError::retry(
            ErrorKind::QueueFull,
            held(own, "completions are running or waiting", share, limit),
            retry_after,
        ),
        Refusal::Coming | Refusal::NoWorker => {
            RequestError::retry(ErrorKind::Unavailable, "no worker is ready", RETRY_DELAY)
        }
    }
}

/// What a caller hears from a router that ends.
pub(crate) fn shutting_down() -> RequestError {
    let message = "the server is shutting down";
    RequestError::retry(ErrorKind::Unavailable, message, RETRY_DELAY)
}

/// What a tenant hears that holds as many as it may: `own` of its own share of the limit. Who holds
/// none is refused where too many tenants do.
pub(super) fn held(own: usize, what: &str, share: usize, limit: usize) -> String {
    if own == 0 && limit > 0 {
        let most = Standing::most_tenants(limit);
        format!("{what} of {most} other tenants; allowed: {most} tenants at once")
    } else if share < limit {
        format!(
            "{own} of your {what}; allowed: up to {share} while others ask too, of {limit} in all"
        )
    } else {
        format!("{own} {what}; allowed: up to {limit}")
    }
}
