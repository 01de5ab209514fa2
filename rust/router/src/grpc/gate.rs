//! Who may call, decided by a call's path and headers before its body is read.

use std::sync::Arc;

use http::{HeaderMap, Uri};

use crate::access::{ApiKeys, Grant, Token};
use crate::error::{ErrorKind, RequestError};
use crate::metrics::{Call, Calls, Metrics};

/// Answers everyone: load balancers and Kubernetes ask without a key.
const HEALTH: &str = "/grpc.health.v1.Health/";
const WATCH: &str = "Watch";
/// W3C's name of the trace that a call belongs to.
const TRACEPARENT: &str = "traceparent";
const REFLECTION: &str = "/grpc.reflection.";
/// Names that calls are counted by; a client cannot make up more.
const COUNTED: &[&str] = &[
    "Generate",
    "GenerateStream",
    "ResumeStream",
    "Tokenize",
    "Detokenize",
    "ApplyChatTemplate",
    "ListModels",
];

/// What the caller's key allows, as a request extension; everything when absent.
#[derive(Clone, Debug)]
pub(crate) struct Granted(pub(crate) Option<Grant>);

/// What a listener asks of its callers. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) enum Gate {
    /// An API key, when there are any.
    Keys {
        /// The keys.
        keys: Arc<ApiKeys>,
        /// Whether reflection answers without one.
        is_reflection_open: bool,
        /// Counts who was refused.
        metrics: Arc<Metrics>,
        /// Notes what becomes of a call.
        calls: Calls,
    },
    /// The operators' token, when there is one.
    Token(Option<Token>),
}

/// Where a call belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Health: small, and open to all.
    Probe,
    /// Health, as long as the caller likes.
    Watch,
    /// Descriptors for tools.
    Reflection,
    /// Everything else.
    Work,
}

impl Purpose {
    pub(crate) fn of(uri: &Uri) -> Self {
        let path = uri.path();
        if let Some(method) = path.strip_prefix(HEALTH) {
            if method == WATCH {
                Self::Watch
            } else {
                Self::Probe
            }
        } else if path.starts_with(REFLECTION) {
            Self::Reflection
        } else {
            Self::Work
        }
    }
}

/// The name by which a call is counted.
fn counted(uri: &Uri) -> &'static str {
    let name = uri.path().rsplit('/').next().unwrap_or_default();
    let route = COUNTED.iter().find(|route| **route == name);
    route.unwrap_or(&"other")
}

impl Gate {
    /// Counts a call that reaches no method.
    pub(crate) fn count_refused(&self, uri: &Uri, error: &RequestError) {
        if let Self::Keys { metrics, .. } = self {
            let code = error.kind.grpc_code();
            metrics.request(counted(uri), &format!("{code:?}"));
        }
    }

    /// Begins to note a call of a client; probes, reflection and operators' calls are not noted.
    pub(crate) fn note(&self, uri: &Uri, headers: &HeaderMap) -> Call {
        let Self::Keys { calls, .. } = self else {
            return Call::default();
        };
        if Purpose::of(uri) != Purpose::Work {
            return Call::default();
        }
        calls.begin(counted(uri), headers.get(TRACEPARENT))
    }

    /// What the key of a call allows.
    ///
    /// # Errors
    /// [`ErrorKind::Unauthenticated`] for a call that does not show what is asked.
    pub(crate) fn enter(&self, uri: &Uri, headers: &HeaderMap) -> Result<Granted, RequestError> {
        let purpose = Purpose::of(uri);
        match self {
            _ if matches!(purpose, Purpose::Probe | Purpose::Watch) => Ok(Granted(None)),
            Self::Keys {
                keys,
                is_reflection_open,
                ..
            } => {
                if purpose == Purpose::Reflection && *is_reflection_open {
                    return Ok(Granted(None));
                }
                keys.grant(key(headers)).map(Granted)
            }
            Self::Token(Some(token)) if !token.is_shown(headers) => Err(RequestError::new(
                ErrorKind::Unauthenticated,
                "wrong or missing operator's token: send the header authorization: Bearer TOKEN \
                 with that of --admin-token-file",
            )),
            Self::Token(_) => Ok(Granted(None)),
        }
    }
}

/// The API key that a call shows.
fn key(headers: &HeaderMap) -> Option<&str> {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
    header("authorization")
        .and_then(ApiKeys::bearer)
        .or_else(|| header("x-api-key"))
}
