//! A resolved request, with its model and its deadline.

use std::sync::Arc;
use std::time::{Duration, Instant};

use prost::Message;
use sha2::{Digest as _, Sha256};
use spectrie_proto::{v1, worker_v1};
use spectrie_request::resolve::text_bytes;
use spectrie_request::{Caller, Naming, ResolvedRequest};

use super::blocking::{Asker, TextPool};
use crate::error::RequestError;
use crate::failover::Digest;
use crate::metrics::AttemptName;
use crate::sync::{now, unix_time};
use crate::workers::ServedModel;

/// Everything that is the same for all choices of a request.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) request: ResolvedRequest,
    pub(crate) model: Arc<ServedModel>,
    pub(crate) deadline: Instant,
    pub(crate) deadline_ms: i64,
}

/// What a request is resolved against.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) request_id: String,
    pub(crate) model: Arc<ServedModel>,
    pub(crate) max_context: u32,
    pub(crate) tenant: Option<String>,
    pub(crate) allow_client_namespaces: bool,
    pub(crate) deadline: Instant,
}

/// Resolves a request that passed [`spectrie_request::validate::check_request`].
///
/// # Errors
/// As [`spectrie_request::resolve()`], and as [`TextPool::run`].
pub(crate) async fn resolve(
    request: v1::GenerateRequest,
    facts: Facts,
    texts: &TextPool,
) -> Result<Resolved, RequestError> {
    let Facts {
        request_id,
        model,
        max_context,
        tenant,
        allow_client_namespaces,
        deadline,
    } = facts;
    let served = model.clone();
    let naming = if allow_client_namespaces {
        Naming::Parts
    } else {
        Naming::Refused
    };
    let owner = tenant.clone();
    let asker = Asker {
        tenant: tenant.as_deref(),
        deadline,
    };
    let request = texts.run(asker, text_bytes(&request), move || {
        let caller = Caller {
            tenant: owner.as_deref(),
            naming,
        };
        spectrie_request::resolve(request_id, request, served.facts(max_context), caller)
    });
    Ok(Resolved::new(request.await?, model, deadline))
}

impl Resolved {
    pub(super) fn new(
        request: ResolvedRequest,
        model: Arc<ServedModel>,
        deadline: Instant,
    ) -> Self {
        Self {
            request,
            model,
            deadline,
            deadline_ms: unix_ms(deadline),
        }
    }

    /// The order that begins choice `index`.
    pub(crate) fn start(&self, index: u32, attempt: u32) -> worker_v1::Start {
        self.request.start(index, attempt, Some(self.deadline_ms))
    }

    /// The order that resumes choice `index` behind the tokens of earlier attempts. The prompt's
    /// log-probabilities came with the first of them.
    pub(crate) fn resume(&self, index: u32, attempt: u32, emitted: &[u32]) -> worker_v1::Start {
        let mut start = self.start(index, attempt);
        if !emitted.is_empty() {
            start.emitted_token_ids = emitted.to_vec();
            start.prompt_logprobs = None;
        }
        start
    }

    /// How an attempt of choice `index` is named in its call's trace.
    pub(crate) fn attempt(&self, index: u32, number: u32) -> AttemptName<'_> {
        AttemptName {
            request_id: &self.request.request_id,
            index,
            number,
        }
    }

    /// What names this tenant's request, whatever its id and its seed.
    pub(crate) fn digest(&self) -> Digest {
        digest(&self.model.name, &self.request)
    }
}

/// What names a tenant's request for a model.
pub(super) fn digest(model: &String, request: &ResolvedRequest) -> Digest {
    let mut hash = Sha256::new();
    let mut add = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    for name in [
        Some(model),
        Some(&request.namespace),
        request.tenant.as_ref(),
    ] {
        add(name.map_or(&[], |name| name.as_bytes()));
    }
    for ids in [Some(&request.prompt_ids), request.prediction_ids.as_ref()] {
        let ids = ids.into_iter().flatten();
        add(&ids.flat_map(|id| id.to_le_bytes()).collect::<Vec<_>>());
    }
    add(&request.sampling.encode_to_vec());
    add(&request.stopping.encode_to_vec());
    let structured = request.structured.as_ref();
    add(&structured.map_or_else(Vec::new, Message::encode_to_vec));
    hash.finalize().into()
}

/// The moment of a Unix time in milliseconds; now, if it is over.
pub(super) fn moment(unix_ms: i64) -> Instant {
    // In this order, so that it is never a millisecond less when it is turned back.
    let left = at(unix_ms).saturating_sub(unix_time());
    now() + left
}

/// The moment of a Unix time in milliseconds that is over; as far back as there are moments.
pub(super) fn past_moment(unix_ms: i64) -> Instant {
    let now = now();
    let ago = unix_time().saturating_sub(at(unix_ms));
    now.checked_sub(ago).unwrap_or(now)
}

/// Unix time of a moment, in milliseconds.
pub(super) fn unix_ms(moment: Instant) -> i64 {
    let now = now();
    let left = moment.saturating_duration_since(now);
    let ago = now.saturating_duration_since(moment);
    let since = (unix_time() + left).saturating_sub(ago);
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

fn at(unix_ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(unix_ms).unwrap_or(0))
}
