//! What callers hear when no worker takes their request.

use std::time::Duration;

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
        Refusal::Full { in_flight, limit } => RequestError::retry(
            ErrorKind::QueueFull,
            format!("{in_flight} completions are running or waiting; allowed: up to {limit}"),
            RETRY_DELAY,
        ),
        Refusal::Coming | Refusal::NoWorker => {
            RequestError::retry(ErrorKind::Unavailable, "no worker is ready", RETRY_DELAY)
        }
    }
}
