//! A running request: waits for its worker, and turns what comes into events.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use spectrie_proto::v1;
use spectrie_proto::v1::generate_event::Event;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::choice::{Choice, Outcome};
use super::live::LiveId;
use super::resolve::Resolved;
use crate::access::Pass;
use crate::error::{ErrorKind, RequestError};
use crate::metrics::{Metrics, ModelMetrics};
use crate::workers::{ChoiceGuard, Dispatch, Inbox, Mailbox, Order, Registry};

/// Attempts of one choice: a second worker may be tried before the first token.
const MAX_ATTEMPTS: u32 = 2;

/// A request that was dispatched. Dropping it cancels every choice that still runs.
#[derive(Debug)]
pub(crate) struct Run {
    resolved: Resolved,
    choices: Vec<Choice>,
    mailbox: Arc<Mailbox>,
    registry: Arc<Registry>,
    metrics: Arc<Metrics>,
    model_metrics: ModelMetrics,
    ready: VecDeque<v1::GenerateEvent>,
    begun: Instant,
    /// When the last tokens came.
    last_tokens: Option<Instant>,
    is_over: bool,
    _live: LiveId,
    pass: Option<Pass>,
    _tracked: TaskTrackerToken,
}

/// What a run is made of.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) resolved: Resolved,
    pub(crate) guards: Vec<ChoiceGuard>,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) begun: Instant,
    pub(crate) live: LiveId,
    /// Of the caller's key, where its tokens count.
    pub(crate) pass: Option<Pass>,
    pub(crate) tracked: TaskTrackerToken,
}

impl Run {
    /// # Errors
    /// As [`Choice::new`].
    pub(crate) fn new(parts: Parts) -> Result<Self, RequestError> {
        let Parts {
            resolved,
            guards,
            mailbox,
            registry,
            metrics,
            begun,
            live,
            pass,
            tracked,
        } = parts;
        let choices = guards.into_iter().enumerate();
        let choices = choices.map(|(index, guard)| Choice::new(&resolved, index as u32, guard));
        let choices = choices.collect::<Result<Vec<_>, _>>()?;
        let created = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let started = v1::Started {
            request_id: resolved.request.request_id.clone(),
            model: resolved.model.name.clone(),
            prompt_tokens: resolved.request.prompt_ids.len() as u32,
            seed: resolved.request.seed,
            created: created.as_secs() as i64,
        };
        let model_metrics = metrics.of_model(&resolved.model.name);
        Ok(Self {
            ready: VecDeque::from([event(Event::Started(started))]),
            resolved,
            choices,
            mailbox,
            registry,
            metrics,
            model_metrics,
            begun,
            last_tokens: None,
            is_over: false,
            _live: live,
            pass,
            _tracked: tracked,
        })
    }

    /// Where its workers' outputs wait for it.
    pub(super) fn mailbox(&self) -> &Arc<Mailbox> {
        &self.mailbox
    }

    /// The next event, `None` after the last.
    pub(crate) async fn next(&mut self) -> Option<Result<v1::GenerateEvent, RequestError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            if self.is_over {
                return None;
            }
            if self.choices.iter().all(Choice::is_done) {
                self.is_over = true;
                self.metrics
                    .completed(&self.resolved.model.name, self.begun.elapsed());
                return None;
            }
            let deadline = tokio::time::Instant::from_std(self.resolved.deadline);
            let taken = tokio::time::timeout_at(deadline, self.mailbox.take()).await;
            let failed = match taken {
                Ok((index, inbox)) => self.take(index, inbox).err(),
                Err(_) => Some(RequestError::new(
                    ErrorKind::DeadlineExceeded,
                    "the deadline passed before the answer was complete",
                )),
            };
            if let Some(error) = failed {
                return Some(Err(self.fail(error)));
            }
        }
    }

    /// Ends the request: all choices that still run are cancelled.
    fn fail(&mut self, error: RequestError) -> RequestError {
        self.is_over = true;
        self.ready.clear();
        for choice in &mut self.choices {
            choice.guard = None;
        }
        self.metrics.rejected(&error);
        let error = error.of_request(&self.resolved.request.request_id);
        tracing::warn!(request = %self.resolved.request.request_id, kind = %error.kind, %error,
            "request failed");
        error
    }

    fn take(&mut self, index: usize, inbox: Inbox) -> Result<(), RequestError> {
        self.measure(inbox.token_ids.len());
        let Some(choice) = self.choices.get_mut(index) else {
            return Ok(());
        };
        let ready = &mut self.ready;
        let outcome = choice.take(&self.resolved, inbox, |delta| {
            ready.push_back(event(Event::Delta(delta)));
        });
        match outcome {
            Outcome::Continue => Ok(()),
            Outcome::Finished(finished, stats) => {
                self.metrics
                    .finished(&self.resolved.model.name, &finished, &stats);
                self.ready.push_back(event(Event::Finished(*finished)));
                Ok(())
            }
            Outcome::Failed(error) => Err(error),
            Outcome::Lost(reason) => self.retry(index, reason),
        }
    }

    /// Times a message that brought `num_tokens`.
    fn measure(&mut self, num_tokens: usize) {
        if num_tokens == 0 {
            return;
        }
        let now = Instant::now();
        match self.last_tokens.replace(now) {
            None => self
                .model_metrics
                .ttft
                .observe((now - self.begun).as_secs_f64()),
            Some(last) => {
                let gap = (now - last).as_secs_f64();
                self.model_metrics.chunk_gap.observe(gap);
                self.model_metrics.itl.observe(gap / num_tokens as f64);
            }
        }
        self.model_metrics.generated.inc_by(num_tokens as u64);
        if let Some(pass) = &self.pass {
            pass.charge(num_tokens);
        }
    }

    /// Sends a choice to another worker, which is safe while none of its tokens is known.
    fn retry(&mut self, index: usize, reason: Option<RequestError>) -> Result<(), RequestError> {
        let tokens_sent: u64 = self
            .choices
            .iter()
            .map(|choice| u64::from(choice.num_tokens()))
            .sum();
        let lost = || {
            reason.unwrap_or_else(|| {
                RequestError::worker_lost(tokens_sent, super::refusal::RETRY_DELAY)
            })
        };
        let Some(choice) = self.choices.get_mut(index) else {
            return Err(lost());
        };
        let left = choice.guard.take().map(|guard| guard.worker().id.clone());
        if choice.num_tokens() > 0 || choice.attempt + 1 >= MAX_ATTEMPTS {
            return Err(lost());
        }
        choice.attempt += 1;
        let (resolved, mailbox, attempt) = (&self.resolved, &self.mailbox, choice.attempt);
        let order = Order {
            model: &resolved.model.name,
            tenant: resolved.request.share(),
            num_choices: 1,
            needs_context: resolved.request.needs_context(),
            avoid: left.as_deref(),
        };
        let sent = self.registry.dispatch(&order, || {
            let start = resolved.start(index as u32, attempt);
            vec![Dispatch {
                start,
                mailbox: mailbox.clone(),
                index,
            }]
        });
        match sent {
            Ok(guards) => {
                choice.guard = guards.into_iter().next();
                self.metrics.retried();
                Ok(())
            }
            Err(_) => Err(lost()),
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if !self.is_over && !self.choices.iter().all(Choice::is_done) {
            self.metrics.aborted("client");
        }
    }
}

fn event(event: Event) -> v1::GenerateEvent {
    v1::GenerateEvent { event: Some(event) }
}
