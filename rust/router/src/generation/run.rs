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
use super::shared::Shared;
use crate::access::Pass;
use crate::error::RequestError;
use crate::metrics::ModelMetrics;
use crate::sync::now;
use crate::workers::{ChoiceGuard, Inbox, Mailbox};

/// A request that was dispatched. Dropping it cancels every choice that still runs.
#[derive(Debug)]
pub(crate) struct Run {
    pub(super) resolved: Resolved,
    pub(super) choices: Vec<Choice>,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) shared: Arc<Shared>,
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
    pub(super) resolved: Resolved,
    pub(super) guards: Vec<ChoiceGuard>,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) shared: Arc<Shared>,
    pub(super) begun: Instant,
    pub(super) live: LiveId,
    /// Of the caller's key, where its tokens count.
    pub(super) pass: Option<Pass>,
    pub(super) tracked: TaskTrackerToken,
}

impl Run {
    /// # Errors
    /// As [`Choice::new`].
    pub(crate) fn new(parts: Parts) -> Result<Self, RequestError> {
        let Parts {
            resolved,
            guards,
            mailbox,
            shared,
            begun,
            live,
            pass,
            tracked,
        } = parts;
        let choices = guards.into_iter().enumerate();
        let now = now();
        let choices =
            choices.map(|(index, guard)| Choice::new(&resolved, index as u32, guard, now));
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
        let model_metrics = shared.metrics.of_model(&resolved.model.name);
        Ok(Self {
            ready: VecDeque::from([event(Event::Started(started))]),
            resolved,
            choices,
            mailbox,
            shared,
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
                self.shared
                    .metrics
                    .completed(&self.resolved.model.name, now() - self.begun);
                return None;
            }
            let wake = tokio::time::Instant::from_std(self.wakes_at());
            let taken = tokio::time::timeout_at(wake, self.mailbox.take()).await;
            let failed = match taken {
                Ok((index, inbox)) => self.take(index, inbox).await.err(),
                Err(_) => self.check_time(now()).err(),
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
        self.leave_workers();
        self.shared.metrics.rejected(&error);
        let error = error.of_request(&self.resolved.request.request_id);
        tracing::warn!(request = %self.resolved.request.request_id, kind = %error.kind, %error,
            "request failed");
        error
    }

    async fn take(&mut self, index: usize, inbox: Inbox) -> Result<(), RequestError> {
        self.await_place(index).await?;
        let Some(choice) = self.choices.get_mut(index) else {
            return Ok(());
        };
        let (now, before) = (now(), choice.num_tokens());
        let ready = &mut self.ready;
        let outcome = choice.take(&self.resolved, inbox, now, |delta| {
            ready.push_back(event(Event::Delta(delta)));
        });
        let num_tokens = choice.num_tokens() - before;
        self.measure(num_tokens, now);
        match outcome {
            Outcome::Continue => {}
            Outcome::Finished(finished, stats) => {
                self.shared
                    .metrics
                    .finished(&self.resolved.model.name, &finished, &stats);
                self.ready.push_back(event(Event::Finished(*finished)));
            }
            Outcome::Failed(error) => return Err(error),
            Outcome::Lost(end, error) => self.lost(index, end, error, now)?,
        }
        if self.is_waiting() {
            self.check_time(now)?;
        }
        Ok(())
    }

    /// Times a message that brought `num_tokens`.
    fn measure(&mut self, num_tokens: u32, now: Instant) {
        if num_tokens == 0 {
            return;
        }
        match self.last_tokens.replace(now) {
            None => self
                .model_metrics
                .ttft
                .observe((now - self.begun).as_secs_f64()),
            Some(last) => {
                let gap = (now - last).as_secs_f64();
                self.model_metrics.chunk_gap.observe(gap);
                self.model_metrics.itl.observe(gap / f64::from(num_tokens));
            }
        }
        self.model_metrics.generated.inc_by(u64::from(num_tokens));
        if let Some(pass) = &self.pass {
            pass.charge(num_tokens as usize);
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if !self.is_over && !self.choices.iter().all(Choice::is_done) {
            self.shared.metrics.aborted("client");
        }
        self.leave_workers();
    }
}

fn event(event: Event) -> v1::GenerateEvent {
    v1::GenerateEvent { event: Some(event) }
}
