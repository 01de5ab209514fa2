//! A running request whose workers end: its choices go on at others.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::place::{Look, Place, Waiting};
use crate::error::{ErrorKind, RequestError};
use crate::failover::{End, Need, Verdict};
use crate::generation::choice::Choice;
use crate::generation::refusal::RETRY_DELAY;
use crate::generation::run::Run;
use crate::sync::{lock, now};
use crate::workers::{ChoiceGuard, Dispatch, Worker};

impl Run {
    /// When to look at deadlines and waits again, at the latest.
    pub(in crate::generation) fn wakes_at(&self) -> Instant {
        let mut wake = self.resolved.deadline;
        let (is_begun, now) = (self.is_begun(), now());
        for waiting in self.choices.iter().filter_map(waiting) {
            wake = wake.min(waiting.wakes_at(now).unwrap_or(wake));
            if !is_begun {
                wake = wake.min(waiting.since + self.patience());
            }
        }
        wake
    }

    /// Whether any choice waits for a worker.
    pub(in crate::generation) fn is_waiting(&self) -> bool {
        self.choices.iter().any(|choice| waiting(choice).is_some())
    }

    /// Whether any choice has tokens: such a request waits until its deadline.
    fn is_begun(&self) -> bool {
        self.choices.iter().any(|choice| choice.num_tokens() > 0)
    }

    /// How long a request without tokens waits, as a new one would.
    fn patience(&self) -> Duration {
        Duration::from_secs_f64(self.shared.config.workers.wait_s)
    }

    /// Tokens that count, of all choices.
    fn num_tokens(&self) -> u64 {
        let counts = self.choices.iter().map(Choice::num_tokens);
        counts.map(u64::from).sum()
    }

    /// A choice's worker gave up its part, or is gone: the choice goes on elsewhere, if it may.
    pub(in crate::generation) fn lost(
        &mut self,
        index: usize,
        end: End,
        error: Option<RequestError>,
        now: Instant,
    ) -> Result<(), RequestError> {
        let tokens_sent = self.num_tokens();
        let Some((verdict, accused, turn)) = self.take_from_worker(index, end, now) else {
            return Ok(());
        };
        let Some(choice) = self.choices.get_mut(index) else {
            return Ok(());
        };
        match verdict {
            Verdict::GoOn { delay, alone } => {
                choice.attempt += 1;
                let worker = accused.id.clone();
                if end == End::Faulted {
                    choice.accused = Some((accused, turn));
                }
                choice.place = Place::Waiting(Waiting {
                    since: now,
                    not_before: now + delay,
                    placed: None,
                    avoid: Some(worker),
                    has_failed_there: end == End::Faulted,
                    alone,
                    error,
                });
                self.look(index, now)
            }
            Verdict::Convicted => Err(RequestError::ends_workers(None)),
            Verdict::GiveUp => {
                Err(error.unwrap_or_else(|| RequestError::worker_lost(tokens_sent, RETRY_DELAY)))
            }
        }
    }

    /// Takes a choice that has not ended from its worker: what becomes of it, which worker that was,
    /// and its turn there. None if it was with none.
    pub(in crate::generation) fn take_from_worker(
        &mut self,
        index: usize,
        end: End,
        now: Instant,
    ) -> Option<(Verdict, Arc<Worker>, u64)> {
        let is_begun = self.is_begun();
        let choice = self.choices.get_mut(index)?;
        let guard = choice.place.guard()?;
        let (accused, turn) = (guard.worker().clone(), guard.turn());
        // From here on, nothing of the old attempt arrives; what arrived is of no use.
        choice.place = Place::Done;
        self.mailbox.reset(index);
        choice.tally.end_attempt(now);
        let attempt = self.resolved.attempt(choice.index, choice.attempt);
        self.call.left(attempt, end.name());
        let verdict = choice.blame.ended(end, is_begun);
        tracing::info!(request = %self.resolved.request.request_id, choice = index,
            worker = %accused.id, tokens = choice.num_tokens(), ?end, ?verdict, "choice left its worker");
        if verdict == Verdict::Convicted {
            let digest = self.resolved.digest();
            lock(&self.shared.convicts).add(digest, now);
        }
        Some((verdict, accused, turn))
    }

    /// Looks at deadlines and at every wait.
    pub(in crate::generation) fn check_time(&mut self, now: Instant) -> Result<(), RequestError> {
        if now >= self.resolved.deadline {
            let message = if self.is_waiting() {
                "the deadline passed before another worker was ready to go on with the answer"
            } else {
                "the deadline passed before the answer was complete"
            };
            return Err(RequestError::new(ErrorKind::DeadlineExceeded, message));
        }
        let awaits_idle = |waiting: &Waiting| waiting.alone && waiting.placed.is_some();
        if self.choices.iter().filter_map(waiting).any(awaits_idle) {
            self.shared.registry.settle();
        }
        for index in 0..self.choices.len() {
            self.look(index, now)?;
        }
        Ok(())
    }

    /// Looks at one choice's wait, if it waits.
    fn look(&mut self, index: usize, now: Instant) -> Result<(), RequestError> {
        let patience = (!self.is_begun()).then(|| self.patience());
        let tokens_sent = self.num_tokens();
        // At most two rounds: the registry may place the choice while it is asked.
        loop {
            let Some(choice) = self.choices.get_mut(index) else {
                return Ok(());
            };
            let Place::Waiting(waiting) = &mut choice.place else {
                return Ok(());
            };
            match waiting.look(now) {
                Look::Placed(guard) => {
                    self.placed(index, guard, now);
                    return Ok(());
                }
                Look::Ask => self.ask(index),
                Look::Wait if patience.is_none_or(|patience| now < waiting.since + patience) => {
                    return Ok(());
                }
                Look::Wait | Look::Closed => {
                    let error = waiting.error.take();
                    let lost = || RequestError::worker_lost(tokens_sent, RETRY_DELAY);
                    return Err(error.unwrap_or_else(lost));
                }
            }
        }
    }

    /// Asks the registry for a worker.
    fn ask(&mut self, index: usize) {
        let Some(choice) = self.choices.get_mut(index) else {
            return;
        };
        let is_bound = choice.mark.position > choice.num_tokens();
        let Place::Waiting(waiting) = &mut choice.place else {
            return;
        };
        let need = Need {
            context: self.resolved.request.needs_context(),
            fingerprint: choice.fingerprint.clone(),
            is_bound,
            avoid: waiting.avoid.take(),
            has_failed_there: waiting.has_failed_there,
            alone: waiting.alone,
        };
        let (attempt, emitted) = (choice.attempt, &choice.emitted);
        let mut start = self.resolved.resume(index as u32, attempt, emitted);
        let name = self.resolved.attempt(index as u32, attempt);
        start.traceparent = self.call.traceparent(name);
        // A worker that dropped a namespace's text is not taught that of earlier attempts again.
        start.learn &= !self.live.is_forgotten();
        let dispatch = Dispatch {
            start,
            mailbox: self.mailbox.clone(),
            index,
            is_alone: waiting.alone,
        };
        let model = &self.resolved.model;
        waiting.placed = Some(self.shared.registry.resume(model, need, dispatch));
    }

    /// Before anything that came for a waiting choice is used: hears where it was placed.
    pub(in crate::generation) async fn await_place(
        &mut self,
        index: usize,
    ) -> Result<(), RequestError> {
        let waiting = self.choices.get_mut(index).map(|choice| &mut choice.place);
        let Some(Place::Waiting(waiting)) = waiting else {
            return Ok(());
        };
        let Some(placed) = &mut waiting.placed else {
            return Ok(());
        };
        // Output can come for it only once it is placed, so this ends at once.
        if let Ok(guard) = placed.await {
            self.placed(index, guard, now());
            return Ok(());
        }
        Err(RequestError::worker_lost(self.num_tokens(), RETRY_DELAY))
    }

    fn placed(&mut self, index: usize, guard: ChoiceGuard, now: Instant) {
        if let Some(choice) = self.choices.get_mut(index) {
            choice.tally.begin_attempt(now);
            let attempt = self.resolved.attempt(choice.index, choice.attempt);
            self.call.sent(attempt, &guard.worker().id);
            choice.place = Place::On(guard);
            self.shared.metrics.retried();
        }
    }

    /// Cancels every choice that runs and ends every wait.
    pub(in crate::generation) fn leave_workers(&mut self) {
        let was_alone = self.choices.iter().any(|choice| choice.blame.is_alone());
        let was_waiting = self.is_waiting();
        for choice in &mut self.choices {
            choice.place = Place::Done;
        }
        if was_alone || was_waiting {
            // Others may run where this one was, or was to be, alone; and its place in the line of
            // those that wait is free.
            self.shared.registry.settle();
        }
    }
}

fn waiting(choice: &Choice) -> Option<&Waiting> {
    match &choice.place {
        Place::Waiting(waiting) => Some(waiting),
        Place::On(_) | Place::Done => None,
    }
}
