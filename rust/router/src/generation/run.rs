//! A running request: waits for its worker, and turns what comes into events.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use spectrie_proto::v1;
use spectrie_proto::v1::generate_event::Event;
use spectrie_proto::worker_v1::RequestStats;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::attempts::{Keeping, Kept, Place};
use super::choice::{Choice, Outcome};
use super::live::LiveId;
use super::resolve::Resolved;
use super::shared::Shared;
use crate::access::Pass;
use crate::error::{ErrorKind, RequestError};
use crate::failover::End;
use crate::fleet::Sharing;
use crate::metrics::{Call, ModelMetrics};
use crate::sync::{now, unix_time};
use crate::workers::{ChoiceGuard, Inbox, Lesson, Mailbox, Worker, ejection};

/// A request that was dispatched. Dropping it cancels every choice that still runs.
#[derive(Debug)]
pub(crate) struct Run {
    pub(super) resolved: Resolved,
    pub(super) choices: Vec<Choice>,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) shared: Arc<Shared>,
    model_metrics: ModelMetrics,
    pub(super) ready: VecDeque<v1::GenerateEvent>,
    /// What was fetched for a choice and waits until it may be looked at. Here, so that what comes later never goes
    /// before it, whenever the run is dropped.
    pub(super) fetched: Option<(usize, Inbox)>,
    pub(super) begun: Instant,
    /// When the last tokens came.
    pub(super) last_tokens: Option<Instant>,
    pub(super) is_over: bool,
    /// Whether its end was counted.
    pub(super) is_complete: bool,
    /// Before its name: whoever waits for that may be the next that its key lets run.
    pass: Option<Pass>,
    pub(super) live: LiveId,
    /// What its client can go on with, if it can.
    pub(super) keeping: Option<Keeping>,
    /// Says what comes of it to other routers, if they may go on with it.
    pub(super) sharing: Option<Sharing>,
    _tracked: TaskTrackerToken,
    /// Where it is noted what becomes of it.
    pub(super) call: Call,
}

/// What a run is made of.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(super) resolved: Resolved,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) shared: Arc<Shared>,
    pub(super) begun: Instant,
    pub(super) live: LiveId,
    /// Of the caller's key, where its tokens count.
    pub(super) pass: Option<Pass>,
    pub(super) keeping: Option<Keeping>,
    pub(super) sharing: Option<Sharing>,
    pub(super) tracked: TaskTrackerToken,
    pub(super) call: Call,
}

impl Run {
    /// A request that begins, with what holds each of its choices at its worker.
    ///
    /// # Errors
    /// As [`Choice::new`].
    pub(crate) fn new(parts: Parts, guards: Vec<ChoiceGuard>) -> Result<Self, RequestError> {
        let (now, resolved) = (now(), &parts.resolved);
        let workers = guards.iter().map(|guard| guard.worker().id.as_str());
        let num_prompt_tokens = resolved.request.prompt_ids.len();
        parts.call.dispatched(num_prompt_tokens, workers.clone());
        for (worker, index) in workers.zip(0..) {
            parts.call.with(resolved.attempt(index, 0), worker);
        }
        let choices = guards.into_iter().zip(0..).map(|(guard, index)| {
            let mut choice = Choice::new(resolved, index, Place::On(guard), now)?;
            choice.kept = parts.keeping.is_some().then(Kept::default);
            Ok(choice)
        });
        let choices = choices.collect::<Result<Vec<_>, RequestError>>()?;
        let started = started(resolved, parts.keeping.as_ref());
        let mut run = Self::assemble(parts, choices);
        run.ready.push_back(event(Event::Started(started)));
        run.share_whole();
        Ok(run)
    }

    pub(super) fn assemble(parts: Parts, choices: Vec<Choice>) -> Self {
        let Parts {
            resolved,
            mailbox,
            shared,
            begun,
            live,
            pass,
            keeping,
            sharing,
            tracked,
            call,
        } = parts;
        call.is_of(&resolved.model.name);
        let model_metrics = shared.metrics.of_model(&resolved.model.name);
        if let Some(sharing) = &sharing {
            mailbox.is_of(sharing.origin());
        }
        Self {
            ready: VecDeque::new(),
            fetched: None,
            resolved,
            choices,
            mailbox,
            shared,
            model_metrics,
            begun,
            last_tokens: None,
            is_over: false,
            is_complete: false,
            live,
            pass,
            keeping,
            sharing,
            _tracked: tracked,
            call,
        }
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
                self.complete();
                return None;
            }
            let wake = tokio::time::Instant::from_std(self.wakes_at());
            let failed = tokio::select! {
                biased;
                (index, inbox) = self.mailbox.take() => self.take(index, inbox).await.err(),
                () = asked_for(self.sharing.as_ref()) => {
                    self.share_whole();
                    None
                }
                () = tokio::time::sleep_until(wake) => self.check_time(now()).err(),
            };
            if let Some(error) = failed {
                return Some(Err(self.fail(error)));
            }
        }
    }

    /// All choices have ended well.
    pub(super) fn complete(&mut self) {
        self.is_over = true;
        self.time_whole();
    }

    /// Times the request, once.
    fn time_whole(&mut self) {
        if std::mem::replace(&mut self.is_complete, true) {
            return;
        }
        let time = now() - self.begun;
        let metrics = &self.shared.metrics;
        metrics.completed(&self.resolved.model.name, time);
    }

    /// Ends the request: all choices that still run are cancelled.
    fn fail(&mut self, error: RequestError) -> RequestError {
        self.is_over = true;
        self.keeping = None;
        self.sharing = None;
        self.ready.clear();
        self.leave_workers();
        match self.live.ender() {
            Some((ender, _)) => self.shared.metrics.aborted(ender.cause()),
            None => self.shared.metrics.rejected(&error),
        }
        self.call.failed(error.kind);
        let error = error.of_request(&self.resolved.request.request_id);
        tracing::warn!(request = %self.resolved.request.request_id, kind = %error.kind, error = %error.logged(),
            "request failed");
        error
    }

    async fn take(&mut self, index: usize, inbox: Inbox) -> Result<(), RequestError> {
        self.fetched = Some((index, inbox));
        self.await_place(index).await?;
        self.check_lease().await?;
        let Some((index, inbox)) = self.fetched.take() else {
            return Ok(());
        };
        let now = now();
        if let Some((end, error)) = self.absorb(index, inbox, now)? {
            self.lost(index, end, error, now)?;
        }
        if self.is_waiting() {
            self.check_time(now)?;
        }
        Ok(())
    }

    /// Turns what came for a choice into events, and counts it; how its worker's part ended, if that
    /// ended before the answer did.
    pub(super) fn absorb(
        &mut self,
        index: usize,
        inbox: Inbox,
        now: Instant,
    ) -> Result<Option<(End, Option<RequestError>)>, RequestError> {
        let Some(choice) = self.choices.get_mut(index) else {
            return Ok(None);
        };
        let before = choice.num_tokens();
        let guard = choice.place.guard();
        let worker = guard.map(|guard| (guard.worker().clone(), guard.turn()));
        let attempt = self.resolved.attempt(choice.index, choice.attempt);
        let finish = inbox.finish.as_ref();
        let lesson = finish.and_then(|finish| finish.lesson.clone());
        let call = &self.call;
        let ready = &mut self.ready;
        let outcome = choice.take(&self.resolved, inbox, now, |delta| {
            ready.push_back(event(Event::Delta(delta)));
        });
        let count = choice.num_tokens();
        // Those that its client had from another router were counted there.
        let num_tokens = count - before.max(choice.mark.counted.min(count));
        if num_tokens > 0 {
            call.stepped(attempt, num_tokens, now);
        }
        match &outcome {
            Outcome::Finished(_, stats) => call.done(attempt, || choice.tally.last_of(stats)),
            Outcome::Failed(error) => call.left(attempt, error.kind.reason()),
            Outcome::Continue | Outcome::Lost(..) => {}
        }
        if let Some((worker, turn)) = worker {
            self.judge(index, &worker, turn, num_tokens, &outcome);
            if let (Outcome::Finished(..), Some(lesson)) = (&outcome, &lesson) {
                self.learn(&worker, lesson);
            }
        }
        self.measure(num_tokens, now);
        self.keep_within_bounds(index, count);
        self.share(index, before as usize, now);
        match outcome {
            Outcome::Continue => {}
            Outcome::Finished(finished, stats) => self.finished(*finished, &stats),
            Outcome::Failed(error) => return Err(error),
            Outcome::Lost(end, error) => return Ok(Some((end, error))),
        }
        Ok(None)
    }

    /// Counts a choice that ended, and says so.
    pub(super) fn finished(&mut self, finished: v1::Finished, stats: &RequestStats) {
        let metrics = &self.shared.metrics;
        metrics.finished(&self.resolved.model.name, &finished, stats);
        self.call.finished(&finished, stats);
        let mark = self.choices.get(finished.index as usize);
        if mark.is_none_or(|choice| choice.mark.sends(finished.position)) {
            self.ready.push_back(event(Event::Finished(finished)));
        }
        // Here, not at the stream's end: not everyone reads on after the last event.
        if self.choices.iter().all(Choice::is_done) {
            self.time_whole();
        }
    }

    /// What a worker learned from an answer counts as the answer does.
    fn learn(&self, worker: &Worker, lesson: &Lesson) {
        let model = || self.resolved.model.fleet_key();
        let (registry, fleet) = (&self.shared.registry, &self.shared.fleet);
        let lagging = registry.taken(worker, model, fleet, lesson);
        self.shared.metrics.learn_dropped(lagging);
    }

    /// What a message says of the worker that sent it, and of one that failed its choice before.
    fn judge(
        &mut self,
        index: usize,
        worker: &Arc<Worker>,
        turn: u64,
        num_tokens: u32,
        outcome: &Outcome,
    ) {
        let (registry, metrics) = (&self.shared.registry, &self.shared.metrics);
        let is_finished = matches!(outcome, Outcome::Finished(..));
        if num_tokens > 0 || is_finished {
            let choice = self.choices.get_mut(index);
            let accused = choice.and_then(|choice| choice.accused.take());
            let accused = accused.filter(|(accused, _)| accused.id != worker.id);
            if let Some((accused, turn)) = accused {
                ejection::failed(registry, metrics, &accused, turn);
            }
        }
        if is_finished {
            ejection::answered(metrics, worker, turn);
        }
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
        self.call.emitted(num_tokens, now);
        if let Some(pass) = &self.pass {
            pass.charge(num_tokens as usize);
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.leave_record();
        if !self.is_over && !self.choices.iter().all(Choice::is_done) {
            let ended = self.live.ender();
            let (cause, kind) = ended.map_or(("client", ErrorKind::Cancelled), |(ender, kind)| {
                (ender.cause(), kind)
            });
            self.shared.metrics.aborted(cause);
            self.call.failed(kind);
        }
        self.leave_workers();
    }
}

/// Waits until a stream may be asked for its whole record.
async fn asked_for(sharing: Option<&Sharing>) {
    match sharing {
        Some(sharing) => sharing.rung().await,
        None => std::future::pending().await,
    }
}

pub(super) fn event(event: Event) -> v1::GenerateEvent {
    v1::GenerateEvent { event: Some(event) }
}

/// What a request's client hears first.
pub(super) fn started(resolved: &Resolved, keeping: Option<&Keeping>) -> v1::Started {
    let created = || unix_time().as_secs() as i64;
    v1::Started {
        request_id: resolved.request.request_id.clone(),
        model: resolved.model.name.clone(),
        prompt_tokens: resolved.request.prompt_ids.len() as u32,
        seed: resolved.request.seed,
        created: keeping.map_or_else(created, |keeping| keeping.created),
        resume_token: keeping.map(|keeping| keeping.token.to_text()),
    }
}
