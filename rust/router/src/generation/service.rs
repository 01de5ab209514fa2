//! Begins requests: checks, resolves, dispatches.

use std::sync::Arc;
use std::time::{Duration, Instant};

use spectrie_proto::v1;
use spectrie_request::ResolvedRequest;
use spectrie_request::validate::check_request;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::attempts::Keeping;
use super::live::LiveId;
use super::reader;
use super::refusal::{refused, shutting_down};
use super::resolve::{Facts, digest};
use super::run::{Parts, Run};
use super::shared::Shared;
use super::stream::GenerationStream;
use crate::access::{Grant, Pass};
use crate::config::RouterConfig;
use crate::error::{RequestError, shown};
use crate::fleet::Fleet;
use crate::metrics::{Call, Metrics};
use crate::sync::{lock, now};
use crate::workers::{Mailbox, Refusal, Registry, ServedModel};

/// Who sent a request, and how long it may take.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// What the API key allows; none when everyone may call.
    pub grant: Option<Grant>,
    /// When the answer is of no more use; the server's default when absent.
    pub deadline: Option<Instant>,
    /// Where it is noted what became of it.
    pub(crate) call: Call,
}

impl Caller {
    /// Tenant of the API key; none when everyone may call.
    pub fn tenant(&self) -> Option<&str> {
        self.grant.as_ref().map(Grant::tenant)
    }

    /// Whether a model is open to it.
    pub fn allows_model(&self, model: &str) -> bool {
        self.grant
            .as_ref()
            .is_none_or(|grant| grant.allows_model(model))
    }

    /// # Errors
    /// A model that is not open to it.
    pub(super) fn check_model(&self, model: &str) -> Result<(), RequestError> {
        self.grant
            .as_ref()
            .map_or(Ok(()), |grant| grant.check_model(model))
    }

    /// Counts a request that begins; `None` when everyone may call.
    ///
    /// # Errors
    /// [`RateLimited`](crate::error::ErrorKind::RateLimited) when the key's limits are used up.
    pub(super) fn begin(&self) -> Result<Option<Pass>, RequestError> {
        self.grant.as_ref().map(Grant::begin).transpose()
    }

    /// Counts a request that goes on, which was counted when it began.
    ///
    /// # Errors
    /// [`RateLimited`](crate::error::ErrorKind::RateLimited) when the key has as many requests at once as it may.
    pub(super) fn go_on(&self) -> Result<Option<Pass>, RequestError> {
        self.grant.as_ref().map(Grant::go_on).transpose()
    }

    /// # Errors
    /// A priority above the key's highest.
    pub(super) fn check_priority(&self, priority: i32) -> Result<(), RequestError> {
        let grant = self.grant.as_ref();
        grant.map_or(Ok(()), |grant| grant.check_priority(priority))
    }

    /// What it hears when no worker takes its request: only of models that are open to it.
    pub(super) fn refused(&self, refusal: Refusal, name: Option<&str>) -> RequestError {
        let open = |served: Vec<String>| {
            let served = served.into_iter();
            served.filter(|model| self.allows_model(model)).collect()
        };
        let refusal = match refusal {
            Refusal::Unknown(served) => Refusal::Unknown(open(served)),
            Refusal::Ambiguous(served) => Refusal::Ambiguous(open(served)),
            other => other,
        };
        refused(refusal, name)
    }
}

/// Runs requests on the workers that have joined. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Generation {
    pub(super) shared: Arc<Shared>,
}

impl Generation {
    pub(crate) fn new(
        registry: Arc<Registry>,
        metrics: Arc<Metrics>,
        config: Arc<RouterConfig>,
        fleet: Fleet,
    ) -> Self {
        let shared = Shared::new(registry, metrics, config, fleet);
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Checks a request, sends its choices to a worker and gives the stream of its events.
    ///
    /// Waits while a worker is loading or restarting, up to `workers.wait_s` or the deadline.
    ///
    /// # Errors
    /// Everything that can be known before the first token: bad fields, unknown model, full queue,
    /// no worker, deadline.
    pub async fn start(
        &self,
        request: v1::GenerateRequest,
        caller: Caller,
    ) -> Result<GenerationStream, RequestError> {
        self.start_as(request, caller, None).await
    }

    /// The same, as a stream that its client can go on with when it is cut: `started` has the token
    /// for that, and its record keeps the `form` of an API's answer.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn start_resumable(
        &self,
        request: v1::GenerateRequest,
        caller: Caller,
        form: Option<String>,
    ) -> Result<GenerationStream, RequestError> {
        let is_kept = lock(&self.shared.records).is_on();
        let keeping = is_kept.then(|| Keeping::new(form, &self.shared.held));
        let keeping = keeping.flatten();
        self.start_as(request, caller, keeping).await
    }

    async fn start_as(
        &self,
        request: v1::GenerateRequest,
        caller: Caller,
        keeping: Option<Keeping>,
    ) -> Result<GenerationStream, RequestError> {
        let drawn = || uuid::Uuid::new_v4().simple().to_string();
        let request_id = request.request_id.clone().unwrap_or_else(drawn);
        let call = caller.call.clone();
        call.named(&request_id);
        self.begin(request_id.clone(), request, caller, keeping)
            .await
            .map_err(|error| {
                call.failed(error.kind);
                self.shared.metrics.rejected(&error);
                let (request, message) = (shown(&request_id), error.logged());
                tracing::info!(%request, kind = %error.kind, error = %message, "request refused");
                error.of_request(&request_id)
            })
    }

    async fn begin(
        &self,
        request_id: String,
        request: v1::GenerateRequest,
        caller: Caller,
        keeping: Option<Keeping>,
    ) -> Result<GenerationStream, RequestError> {
        let shared = &self.shared;
        if let Some(model) = &request.model {
            caller.call.asks_for(model);
            caller.check_model(model)?;
        }
        caller.check_priority(request.priority.unwrap_or(0))?;
        let known = shared.registry.find(request.model.as_deref()).ok();
        if let Some((model, _)) = &known {
            caller.call.is_of(&model.name);
        }
        let vocabulary_size = known.as_ref().map(|(model, _)| model.vocabulary_size);
        check(&request, vocabulary_size)?;
        self.check_draining()?;
        let live = shared.live.claim(caller.tenant(), &request_id)?;
        let others = live.live().clone();
        tokio::select! {
            biased;
            begun = self.begin_as(live, request, caller, known, keeping) => begun,
            error = others.until_aborted() => Err(error),
        }
    }

    /// Begins a request that has its name.
    async fn begin_as(
        &self,
        live: LiveId,
        request: v1::GenerateRequest,
        caller: Caller,
        known: Option<(Arc<ServedModel>, u32)>,
        keeping: Option<Keeping>,
    ) -> Result<GenerationStream, RequestError> {
        let shared = &self.shared;
        let begun = now();
        let pass = caller.begin()?;
        let tracked = shared.running.token();
        let deadline = self.deadline(caller.deadline, begun);
        let mut wait = self.wait(&caller, deadline);
        let (model, max_context) = if let Some(known) = known {
            known
        } else {
            let found = self.find_model(&request, &caller, &mut wait).await?;
            check(&request, Some(found.0.vocabulary_size))?;
            found
        };
        caller.check_model(&model.name)?;
        let facts = Facts {
            request_id: live.id().to_owned(),
            model,
            max_context,
            tenant: caller.tenant().map(Into::into),
            allow_client_namespaces: shared.config.access.allow_client_namespaces,
            deadline,
        };
        let resolved = super::resolve::resolve(request, facts, &shared.texts).await?;
        let has_drafter = shared.registry.may_have_drafter(&resolved.model.name);
        resolved.request.check_drafter(has_drafter)?;
        self.check_convicts(&resolved.model.name, &resolved.request)?;
        let outline = keeping.as_ref().map(|keeping| keeping.outline(&resolved));
        live.is_of(&resolved.request.namespace, outline);
        let num_choices = resolved.request.num_choices;
        let mailbox = Arc::new(Mailbox::new(num_choices as usize));
        let guards = self
            .dispatch(&resolved, &mailbox, &mut wait, &caller.call)
            .await?;
        let sharing = keeping.as_ref().and_then(|keeping| {
            let (key, request) = (resolved.model.fleet_key(), &resolved.request);
            let fleet = &shared.fleet;
            fleet.sharing(&key, request, live.tenant(), &keeping.token)
        });
        // Its name is that of another stream now.
        lock(&shared.records).drop_one(live.tenant(), live.id());
        // A request that no worker took costs its key no tokens.
        if let Some(pass) = &pass {
            pass.charge(resolved.request.prompt_ids.len());
        }
        let parts = Parts {
            resolved,
            mailbox,
            shared: shared.clone(),
            begun,
            live,
            pass,
            keeping,
            sharing,
            tracked,
            call: caller.call.clone(),
        };
        let run = Run::new(parts, guards)?;
        let reading = reader::Bounds {
            deadline,
            patience: Duration::from_secs_f64(shared.config.limits.client_stall_timeout_s),
            draining: shared.draining.clone(),
            call: caller.call,
        };
        Ok(GenerationStream::new(run, reading))
    }

    /// Refuses several prompts of `num_choices` each that can never be in flight together, however
    /// often they are sent again. Passes while no worker says how many can.
    ///
    /// # Errors
    /// [`InvalidField`](crate::error::ErrorKind::InvalidField) with the limit.
    pub(crate) fn check_batch(
        &self,
        model: Option<&str>,
        num_prompts: usize,
        num_choices: usize,
    ) -> Result<(), RequestError> {
        let Ok(limit) = self.shared.registry.limit(model) else {
            return Ok(());
        };
        let total = num_prompts * num_choices;
        if num_prompts <= 1 || total <= limit {
            return Ok(());
        }
        let message = format!(
            "given {num_prompts} prompts with {total} completions in all; allowed: up to {limit} \
             completions, as many as may run or wait at once"
        );
        Err(RequestError::invalid("prompt", message))
    }

    pub(super) fn check_draining(&self) -> Result<(), RequestError> {
        if !self.shared.draining.is_cancelled() {
            return Ok(());
        }
        Err(shutting_down())
    }

    /// Refuses what ended workers a while ago.
    pub(super) fn check_convicts(
        &self,
        model: &String,
        request: &ResolvedRequest,
    ) -> Result<(), RequestError> {
        let (convicts, now) = (&self.shared.convicts, now());
        let is_empty = lock(convicts).is_empty(now);
        if is_empty {
            return Ok(());
        }
        // A long prompt is hashed outside the lock.
        let digest = digest(model, request);
        let left = lock(convicts).time_left(&digest, now);
        left.map_or(Ok(()), |left| Err(RequestError::ends_workers(Some(left))))
    }

    /// When a request that comes now is of no more use.
    pub(crate) fn deadline(&self, asked: Option<Instant>, now: Instant) -> Instant {
        let limits = &self.shared.config.limits;
        let latest = now + Duration::from_secs_f64(limits.max_deadline_s);
        let default = now + Duration::from_secs_f64(limits.default_deadline_s);
        asked.unwrap_or(default).min(latest)
    }

    /// Whether a worker is ready and the router is not draining.
    pub fn is_ready(&self) -> bool {
        !self.shared.draining.is_cancelled() && self.shared.registry.is_ready()
    }

    /// The models that can answer now, by name.
    pub fn models(&self) -> Vec<v1::Model> {
        self.shared.registry.models()
    }

    /// Takes no new request and returns when the last running one has ended.
    pub(crate) async fn drain(&self) {
        self.shared.draining.cancel();
        self.shared.running.close();
        self.shared.running.wait().await;
    }

    /// Rings when a worker comes or goes.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.shared.registry.changes()
    }

    /// Requests that run or wait.
    pub(crate) fn num_running(&self) -> usize {
        self.shared.running.len()
    }

    /// Resolves when draining begins.
    pub(crate) fn draining(&self) -> &CancellationToken {
        &self.shared.draining
    }
}

/// Refuses a request that breaks a limit; token ids when the `vocabulary_size` is known.
fn check(request: &v1::GenerateRequest, vocabulary_size: Option<u32>) -> Result<(), RequestError> {
    let violations = check_request(request, vocabulary_size);
    if violations.is_empty() {
        return Ok(());
    }
    Err(RequestError::invalid_fields(violations))
}
