//! One request from its first check to its last event, whichever API it came from.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_core::Stream;
use futures_util::StreamExt as _;
use futures_util::stream::unfold;
use spectrie_proto::v1::generate_event::Event;
use spectrie_proto::{v1, validate};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::live::LiveIds;
use super::resolve::{Facts, Resolved};
use super::run::{Parts, Run};
use super::wait::Wait;
use crate::config::RouterConfig;
use crate::error::{ErrorKind, RequestError};
use crate::metrics::Metrics;
use crate::workers::{ChoiceGuard, Dispatch, Mailbox, Order, Refusal, Registry, ServedModel};

/// What a caller is told to wait before it tries again: about the time a worker restarts in.
pub(crate) const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Who sent a request, and how long it may take.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// Tenant of the API key; none when everyone may call.
    pub tenant: Option<String>,
    /// When the answer is of no more use; the server's default when absent.
    pub deadline: Option<Instant>,
}

/// Runs requests on the workers that have joined. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Generation {
    pub(super) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) registry: Arc<Registry>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) config: Arc<RouterConfig>,
    pub(super) live: LiveIds,
    pub(super) num_waiting: AtomicUsize,
    pub(super) draining: CancellationToken,
    pub(super) running: TaskTracker,
}

impl Generation {
    pub(crate) fn new(
        registry: Arc<Registry>,
        metrics: Arc<Metrics>,
        config: Arc<RouterConfig>,
    ) -> Self {
        let shared = Shared {
            registry,
            metrics,
            config,
            live: LiveIds::default(),
            num_waiting: AtomicUsize::new(0),
            draining: CancellationToken::new(),
            running: TaskTracker::new(),
        };
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
        let drawn = || uuid::Uuid::new_v4().simple().to_string();
        let request_id = request.request_id.clone().unwrap_or_else(drawn);
        self.begin(request_id.clone(), request, caller).await.map_err(|error| {
            self.shared.metrics.rejected(&error);
            tracing::info!(request = %request_id, kind = %error.kind, %error, "request refused");
            error.of_request(&request_id)
        })
    }

    async fn begin(
        &self,
        request_id: String,
        request: v1::GenerateRequest,
        caller: Caller,
    ) -> Result<GenerationStream, RequestError> {
        let shared = &self.shared;
        let begun = Instant::now();
        let violations = validate::check_request(&request);
        if !violations.is_empty() {
            return Err(RequestError::invalid_fields(violations));
        }
        self.check_draining()?;
        let live = shared.live.claim(&request_id)?;
        let tracked = shared.running.token();
        let deadline = self.deadline(caller.deadline, begun);
        let mut wait = Wait::new(shared, deadline);
        let (model, max_context) = self.find_model(request.model.as_deref(), &mut wait).await?;
        let facts = Facts {
            request_id,
            model,
            max_context,
            tenant: caller.tenant,
            allow_client_namespaces: shared.config.access.allow_client_namespaces,
            deadline,
        };
        let resolved = super::resolve::resolve(request, facts).await?;
        let mailbox = Arc::new(Mailbox::new(resolved.num_choices as usize));
        let guards = self.dispatch(&resolved, &mailbox, &mut wait).await?;
        let run = Run::new(Parts {
            resolved,
            guards,
            mailbox,
            registry: shared.registry.clone(),
            metrics: shared.metrics.clone(),
            begun,
            live,
            tracked,
        })?;
        Ok(GenerationStream::new(run))
    }

    fn check_draining(&self) -> Result<(), RequestError> {
        if !self.shared.draining.is_cancelled() {
            return Ok(());
        }
        let message = "the server is shutting down";
        Err(RequestError::retry(
            ErrorKind::Unavailable,
            message,
            RETRY_DELAY,
        ))
    }

    fn deadline(&self, asked: Option<Instant>, now: Instant) -> Instant {
        let limits = &self.shared.config.limits;
        let latest = now + Duration::from_secs_f64(limits.max_deadline_s);
        let default = now + Duration::from_secs_f64(limits.default_deadline_s);
        asked.unwrap_or(default).min(latest)
    }

    /// Finds the model, waiting for a worker that is expected.
    async fn find_model(
        &self,
        name: Option<&str>,
        wait: &mut Wait<'_>,
    ) -> Result<(Arc<ServedModel>, u32), RequestError> {
        loop {
            wait.begin_look();
            match self.shared.registry.find(name) {
                Ok(found) => return Ok(found),
                Err(Refusal::Coming) => wait.next().await?,
                Err(refusal) => return Err(refused(refusal, name)),
            }
        }
    }

    /// Sends all choices to one worker, waiting for one that is expected.
    async fn dispatch(
        &self,
        resolved: &Resolved,
        mailbox: &Arc<Mailbox>,
        wait: &mut Wait<'_>,
    ) -> Result<Vec<ChoiceGuard>, RequestError> {
        let order = Order {
            model: &resolved.model.name,
            num_choices: resolved.num_choices as usize,
            needs_context: resolved.needs_context(),
            avoid: None,
        };
        let dispatch = |index| Dispatch {
            start: resolved.start(index, 0),
            mailbox: mailbox.clone(),
            index: index as usize,
        };
        loop {
            wait.begin_look();
            let choices = || (0..resolved.num_choices).map(dispatch).collect();
            match self.shared.registry.dispatch(&order, choices) {
                Ok(guards) => return Ok(guards),
                Err(Refusal::Coming) => wait.next().await?,
                Err(refusal) => return Err(refused(refusal, Some(order.model))),
            }
        }
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

/// What a caller hears when no worker takes its request.
pub(crate) fn refused(refusal: Refusal, name: Option<&str>) -> RequestError {
    match refusal {
        Refusal::Unknown(served) => {
            RequestError::model_not_found(name.unwrap_or_default(), &served)
        }
        Refusal::Ambiguous(served) => RequestError::invalid(
            "model",
            format!(
                "absent, allowed one of the served models: {}",
                served.join(", ")
            ),
        ),
        Refusal::Full { in_flight, limit } => RequestError::retry(
            ErrorKind::QueueFull,
            format!("{in_flight} completions are running or waiting, allowed up to {limit}"),
            RETRY_DELAY,
        ),
        Refusal::Coming | Refusal::NoWorker => {
            RequestError::retry(ErrorKind::Unavailable, "no worker is ready", RETRY_DELAY)
        }
    }
}

/// Events of one request: `started`, then `delta`s, then one `finished` per choice, or an error
/// as the last item. Dropping it cancels the request within one step.
pub struct GenerationStream {
    events: Pin<Box<dyn Stream<Item = Result<v1::GenerateEvent, RequestError>> + Send>>,
}

impl GenerationStream {
    fn new(run: Run) -> Self {
        let events = unfold(run, |mut run| async {
            run.next().await.map(|item| (item, run))
        });
        Self {
            events: Box::pin(events),
        }
    }

    /// Waits for the whole answer: every choice, in order of its index.
    ///
    /// # Errors
    /// The error that ended the stream.
    pub async fn collect(mut self) -> Result<v1::GenerateResponse, RequestError> {
        let mut response = v1::GenerateResponse::default();
        while let Some(event) = self.next().await {
            add_event(&mut response, event?);
        }
        Ok(response)
    }
}

/// Adds one event to the answer that it is a part of.
fn add_event(response: &mut v1::GenerateResponse, event: v1::GenerateEvent) {
    match event.event {
        Some(Event::Started(started)) => response.started = Some(started),
        Some(Event::Delta(delta)) => {
            let choice = choice_of(&mut response.choices, delta.index);
            choice.text.push_str(&delta.text);
            choice.token_ids.extend(delta.token_ids);
            choice.sources.extend(delta.sources);
            choice.logprobs.extend(delta.logprobs);
        }
        Some(Event::Finished(finished)) => {
            let choice = choice_of(&mut response.choices, finished.index);
            choice.finished = Some(finished);
        }
        None => {}
    }
}

fn choice_of(choices: &mut Vec<v1::Choice>, index: u32) -> &mut v1::Choice {
    while choices.len() <= index as usize {
        let index = choices.len() as u32;
        choices.push(v1::Choice {
            index,
            ..Default::default()
        });
    }
    &mut choices[index as usize]
}

impl Stream for GenerationStream {
    type Item = Result<v1::GenerateEvent, RequestError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.events.as_mut().poll_next(context)
    }
}

impl fmt::Debug for GenerationStream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("GenerationStream")
            .finish_non_exhaustive()
    }
}
