//! A stream that leaves a record.

use std::mem::take;
use std::time::Instant;

use spectrie_proto::v1::generate_event::Event;

use super::keeping::{Keeping, Kept};
use super::place::Place;
use crate::failover::{Record, RecordedChoice};
use crate::generation::choice::Choice;
use crate::generation::run::Run;
use crate::sync::{lock, now};

impl Run {
    /// Keeps what its client needs to go on, if it has the token to ask for it.
    pub(in crate::generation) fn leave_record(&mut self) {
        let Some(keeping) = self.keeping.take() else {
            return;
        };
        let is_unread = |event: &Event| matches!(event, Event::Started(_));
        let first = self.ready.front().and_then(|event| event.event.as_ref());
        let is_unknown = !keeping.is_known && first.is_some_and(is_unread);
        if is_unknown || self.live.is_aborted() {
            return;
        }
        let now = now();
        if !self.take_the_rest(now) {
            return;
        }
        let record = self.record(keeping, now);
        let (tenant, id) = (record.tenant.clone(), record.id().to_owned());
        lock(&self.shared.records).keep(record, now);
        // Whoever forgets a namespace says so to those that run first, then to the records.
        if self.live.is_forgotten() {
            lock(&self.shared.records).drop_one(tenant.as_deref(), &id);
        }
    }

    /// Takes what workers sent before they hear of the end: what they have finished need not be
    /// computed, nor learned, again. False if the request failed.
    fn take_the_rest(&mut self, now: Instant) -> bool {
        while let Some((index, inbox)) = self.mailbox.try_take() {
            match self.absorb(index, inbox, now) {
                Ok(None) => {}
                Ok(Some(_)) => {
                    // Its worker's part is over.
                    if let Some(choice) = self.choices.get_mut(index) {
                        choice.tally.end_attempt(now);
                        choice.place = Place::Done;
                    }
                }
                Err(_) => return false,
            }
        }
        if !self.is_over && self.choices.iter().all(Choice::has_ended) {
            self.complete();
        }
        true
    }

    fn record(&mut self, keeping: Keeping, now: Instant) -> Record {
        let (resolved, model) = (&self.resolved, &self.resolved.model);
        let choices = self.choices.iter_mut();
        Record {
            token: keeping.token,
            request: resolved.request.clone(),
            tenant: self.live.tenant().map(str::to_owned),
            model: model.name.clone(),
            model_hash: model.model_hash.clone(),
            model_digest: model.digest.clone(),
            created: keeping.created,
            deadline_ms: resolved.deadline_ms,
            form: keeping.form,
            choices: choices.map(|choice| choice.record(now)).collect(),
        }
    }
}

impl Choice {
    /// Whether it has ended well.
    fn has_ended(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.end.is_some())
    }

    fn record(&mut self, now: Instant) -> RecordedChoice {
        if matches!(self.place, Place::On(_)) {
            self.tally.end_attempt(now);
        }
        let Kept {
            sources,
            logprobs,
            end,
        } = self.kept.take().unwrap_or_default();
        RecordedChoice {
            attempt: self.attempt,
            emitted: take(&mut self.emitted),
            sources,
            logprobs,
            prompt_logprobs: take(&mut self.prompt_logprobs),
            fingerprint: self.fingerprint.take(),
            numerics_changed: self.numerics_changed,
            stats: self.tally.earlier().clone(),
            blame: self.blame.clone(),
            end,
        }
    }
}
