//! A stream that leaves a record, as long as what it holds for one is not too much.

use std::mem::take;
use std::time::Instant;

use spectrie_proto::v1::generate_event::Event;

use super::keeping::{Keeping, Kept};
use super::place::Place;
use crate::failover::{Record, RecordedChoice, Verdict, num_counted};
use crate::fleet::Sharing;
use crate::generation::choice::Choice;
use crate::generation::resolve::unix_ms;
use crate::generation::run::Run;
use crate::sync::{lock, now};

impl Run {
    /// Notes that `num_tokens` of a choice count, and holds no more for a record than may be held: a
    /// stream that would holds nothing any more, and cannot be resumed.
    ///
    /// One stream may hold as much as all records together. Where all running streams hold more than
    /// that, those with more than an equal part give theirs up.
    pub(in crate::generation) fn keep_within_bounds(&mut self, index: usize, num_tokens: u32) {
        let Some(keeping) = &mut self.keeping else {
            return;
        };
        let choice = self.choices.get(index);
        let has_ended = choice.is_some_and(Choice::has_ended);
        let mark = choice.map_or(0, |choice| choice.mark.position);
        let most = self.resolved.request.max_tokens;
        let num_tokens = num_counted(num_tokens, mark, has_ended, most);
        self.live.counts(index, num_tokens, has_ended);
        let kept = self
            .choices
            .iter()
            .filter_map(|choice| choice.kept.as_ref());
        let own = kept.map(|kept| kept.num_bytes).sum();
        let all = keeping.part.set(own);
        let limit = self.shared.config.limits.max_resume_bytes;
        let equal = limit / self.shared.running.len().max(1);
        if own <= limit && (all <= limit || own <= equal) {
            return;
        }
        tracing::warn!(request = %self.resolved.request.request_id, bytes = own,
            "a stream that is cut from now on cannot be resumed: what is held for it is too much");
        self.live.cannot_be_resumed();
        self.keeping = None;
        self.sharing = None;
        for choice in &mut self.choices {
            choice.kept = None;
        }
    }

    /// Keeps what its client needs to go on, if it has the token to ask for it.
    pub(in crate::generation) fn leave_record(&mut self) {
        let sharing = self.sharing.take();
        let Some(keeping) = self.keeping.take() else {
            return;
        };
        let is_doubtful = sharing.as_ref().is_some_and(Sharing::is_doubtful);
        let is_lost = sharing.as_ref().is_some_and(Sharing::is_lost);
        let (sharing, holder) = match sharing {
            Some(sharing) if is_doubtful => (None, Some(sharing.let_go())),
            sharing => (sharing, None),
        };
        if is_lost {
            return;
        }
        let is_unread = |event: &Event| matches!(event, Event::Started(_));
        let first = self.ready.front().and_then(|event| event.event.as_ref());
        let is_unknown = !keeping.is_known && first.is_some_and(is_unread);
        if is_unknown || self.live.is_aborted() {
            return;
        }
        let now = now();
        // What its workers sent while it was doubtful may be another router's to count.
        if !is_doubtful && !self.take_the_rest(now) {
            return;
        }
        let has_ended = self.choices.iter().all(Choice::has_ended);
        if now >= self.resolved.deadline && !has_ended {
            return;
        }
        let mut record = self.record(&keeping, has_ended, now);
        let (tenant, id) = (record.tenant.clone(), record.id().to_owned());
        // Redis says whether this is the newest, once its client asks for it.
        record.holder = holder;
        if let Some(sharing) = sharing.filter(|_| !self.live.is_forgotten()) {
            record.holder = Some(sharing.leave(record.clone()));
        }
        lock(&self.shared.records).keep(record, now);
        // Whoever forgets a namespace, or aborts, says so to those that run first, then to the records.
        if self.live.is_forgotten() || self.live.is_aborted() {
            lock(&self.shared.records).drop_one(tenant.as_deref(), &id);
        }
    }

    /// Takes what workers sent before they hear of the end: what they have finished need not be
    /// computed, nor learned, again. False if the request failed.
    fn take_the_rest(&mut self, now: Instant) -> bool {
        let mut fetched = self.fetched.take();
        while let Some((index, inbox)) = fetched.take().or_else(|| self.mailbox.try_take()) {
            match self.absorb(index, inbox, now) {
                Ok(None) => {}
                // Its worker's part is over. A convict's record stays: its client hears why.
                Ok(Some((end, _))) => match self.take_from_worker(index, end, now) {
                    Some((Verdict::GiveUp, ..)) => return false,
                    Some((Verdict::GoOn { .. } | Verdict::Convicted, ..)) | None => {}
                },
                Err(_) => return false,
            }
        }
        if !self.is_over && self.choices.iter().all(Choice::has_ended) {
            self.complete();
        }
        true
    }

    fn record(&mut self, keeping: &Keeping, has_ended: bool, now: Instant) -> Record {
        let request = &mut self.resolved.request;
        if has_ended {
            // To repeat what was sent takes no prompt.
            (request.prompt_ids, request.prediction_ids) = (Vec::new(), None);
        }
        let choices = self.choices.iter_mut();
        let choices = choices.map(|choice| choice.record(now)).collect();
        self.record_of(keeping, choices)
    }

    /// The record of the stream with these choices.
    pub(super) fn record_of(&self, keeping: &Keeping, choices: Vec<RecordedChoice>) -> Record {
        let (resolved, model) = (&self.resolved, &self.resolved.model);
        Record {
            token: keeping.token.clone(),
            request: resolved.request.clone(),
            tenant: self.live.tenant().map(str::to_owned),
            model: model.name.clone(),
            model_hash: model.model_hash.clone(),
            model_digest: model.digest.clone(),
            created: keeping.created,
            begun_ms: unix_ms(self.begun),
            num_resumes: keeping.num_resumes,
            deadline_ms: resolved.deadline_ms,
            form: keeping.form.clone(),
            holder: None,
            choices,
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
            ..
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
            mark: self.mark.position,
            end,
        }
    }
}
