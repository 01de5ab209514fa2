//! A running stream that other routers may go on with.

use std::time::Instant;

use super::place::Place;
use crate::error::{ErrorKind, RequestError};
use crate::failover::{Record, RecordedChoice};
use crate::fleet::Gone;
use crate::generation::Generation;
use crate::generation::choice::Choice;
use crate::generation::live::Ender;
use crate::generation::refusal::shutting_down;
use crate::generation::run::Run;
use crate::sync::{lock, now};

impl Generation {
    /// Ends a stream that goes on, or is to go on, at another router.
    pub(crate) fn end_stream(&self, tenant: Option<&str>, id: &str, why: Gone) {
        let Some(live) = self.shared.live.find(tenant, id) else {
            return;
        };
        let error = match why {
            Gone::Wanted => moved("another connection of its client"),
            Gone::Lost => moved("another router"),
        };
        live.end(Ender::Successor, error);
    }

    /// Ends all that runs: this router ends. What clients can go on with they leave, here and in Redis.
    pub(crate) fn cut(&self) {
        for (tenant, id) in self.shared.live.names(|_| true) {
            if let Some(live) = self.shared.live.find(tenant.as_deref(), &id) {
                live.end(Ender::Shutdown, shutting_down());
            }
        }
    }

    /// The record of a stream, if it is still the one that `owner` left.
    pub(crate) fn left(&self, tenant: Option<&str>, id: &str, owner: &str) -> Option<Record> {
        let records = lock(&self.shared.records);
        let record = records.find(tenant, id)?;
        (record.holder.as_deref() == Some(owner)).then(|| record.clone())
    }
}

impl Run {
    /// Says all of the stream, where it is asked for.
    pub(in crate::generation) fn share_whole(&self) {
        let sharing = self.sharing.as_ref();
        if let Some(sharing) = sharing.filter(|sharing| sharing.wants_whole())
            && let Some(record) = self.snapshot(now())
        {
            sharing.whole(record);
        }
    }

    /// Says what came of a choice behind its first `from` tokens.
    pub(in crate::generation) fn share(&self, index: usize, from: usize, now: Instant) {
        let Some(sharing) = &self.sharing else { return };
        if sharing.wants_whole() {
            return self.share_whole();
        }
        if let Some(choice) = self.choices.get(index) {
            sharing.add(choice.index, from, choice.recorded(from, now));
        }
    }

    /// After this router was stopped, waits until it knows whether the stream is still its own.
    ///
    /// # Errors
    /// It goes on at another router.
    pub(in crate::generation) async fn check_lease(&mut self) -> Result<(), RequestError> {
        match &self.sharing {
            Some(sharing) if !sharing.assured().await => {
                let error = moved("another router");
                self.live.ends_by(Ender::Successor, error.kind);
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// The record as it is now; none if the stream cannot be resumed.
    fn snapshot(&self, now: Instant) -> Option<Record> {
        let keeping = self.keeping.as_ref()?;
        let choices = self.choices.iter();
        let choices = choices.map(|choice| choice.recorded(0, now)).collect();
        Some(self.record_of(keeping, choices))
    }
}

impl Choice {
    /// What is to be known elsewhere of it, with its tokens from `from` on.
    fn recorded(&self, from: usize, now: Instant) -> RecordedChoice {
        let stats = match &self.place {
            Place::On(_) => self.tally.so_far(now),
            Place::Waiting(_) | Place::Done => self.tally.earlier().clone(),
        };
        let kept = self.kept.as_ref();
        let logprobs = kept.and_then(|kept| kept.logprobs.get(from..));
        // Its first tokens may reach the client before anyone hears of them.
        let fingerprint = self.fingerprint.as_ref().or_else(|| {
            let guard = self.place.guard()?;
            Some(&guard.worker().hello.numeric_fingerprint)
        });
        RecordedChoice {
            attempt: self.attempt,
            emitted: self.emitted.get(from..).unwrap_or_default().to_vec(),
            sources: kept
                .and_then(|kept| kept.sources.get(from..))
                .unwrap_or_default()
                .to_vec(),
            logprobs: logprobs.unwrap_or_default().to_vec(),
            prompt_logprobs: if from == 0 {
                self.prompt_logprobs.clone()
            } else {
                Vec::new()
            },
            fingerprint: fingerprint.cloned(),
            numerics_changed: self.numerics_changed,
            stats,
            blame: self.blame.clone(),
            mark: self.mark.position,
            end: kept.and_then(|kept| kept.end.clone()),
        }
    }
}

fn moved(where_to: &str) -> RequestError {
    let message = format!("the stream goes on at {where_to}");
    RequestError::new(ErrorKind::Cancelled, message)
}
