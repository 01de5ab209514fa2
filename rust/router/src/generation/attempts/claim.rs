//! How a client gets hold of its stream's record, which a running stream leaves first.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::go_on::{Resume, unknown};
use crate::error::{ErrorKind, RequestError};
use crate::failover::Outline;
use crate::failover::{Record, ResumeToken, Taken};
use crate::fleet::{Sharing, TakenOver, Taking};
use crate::generation::live::{Live, LiveId};
use crate::generation::refusal::RETRY_DELAY;
use crate::generation::shared::Shared;
use crate::generation::{Caller, Generation};
use crate::sync::{lock, now};

/// How long a resumed stream may take to leave its record: another thread may be at it.
const LEAVING: Duration = Duration::from_secs(5);

/// What is found of a stream.
enum Found {
    /// Its record, with its name, which is the claiming client's from now on.
    Cut(Box<Taken>, LiveId),
    /// It runs, or leaves its record just now.
    Running(Arc<Live>, Outline),
}

impl Generation {
    /// Takes out the record of a stream, and takes its name. One that still runs ends, if it may go
    /// on as it is asked for.
    ///
    /// # Errors
    /// As [`Generation::resume`].
    pub(super) async fn claim(
        &self,
        id: &str,
        token: &ResumeToken,
        resume: &Resume,
        caller: &Caller,
    ) -> Result<Claimed, RequestError> {
        let until = tokio::time::Instant::from_std(now() + LEAVING);
        loop {
            let (running, outline) = match self.find_stream(id, token, caller) {
                Ok(Found::Cut(taken, live)) => return self.newest(taken, live, token).await,
                Ok(Found::Running(running, outline)) => (running, outline),
                Err(error) if error.kind == ErrorKind::NotFound => {
                    return self.take_over(id, token, caller).await;
                }
                Err(error) => return Err(error),
            };
            self.check(&outline, resume, caller)?;
            // Its own choices make room for themselves.
            self.check_room(&outline, outline.num_unfinished())?;
            let message = "the stream goes on at another connection of its client";
            running.end(RequestError::new(ErrorKind::Cancelled, message));
            let left = tokio::time::timeout_at(until, running.left()).await;
            left.map_err(|_| {
                let message = "the stream is being cut: try again";
                RequestError::retry(ErrorKind::Unavailable, message, RETRY_DELAY)
            })?;
        }
    }

    /// In one step, so that whoever aborts or forgets finds the stream among those that run or among
    /// the records: it looks at the one, the other, and the first again.
    fn find_stream(
        &self,
        id: &str,
        token: &ResumeToken,
        caller: &Caller,
    ) -> Result<Found, RequestError> {
        let (shared, tenant) = (&self.shared, caller.tenant());
        let mut records = lock(&shared.records);
        if let Some(running) = shared.live.find(tenant, id)
            && let Some(outline) = running.outline(token)
        {
            return Ok(Found::Running(running, outline));
        }
        let now = now();
        let taken = records.take(tenant, id, token, now).ok_or_else(unknown)?;
        match shared.live.claim(tenant, id) {
            Ok(live) => {
                let outline = Outline::from(&taken.record);
                live.is_of(&taken.record.request.namespace, Some(outline));
                Ok(Found::Cut(Box::new(taken), live))
            }
            Err(error) => {
                records.put_back(taken, now);
                Err(error)
            }
        }
    }

    /// What was cut here, or what another router made of it since.
    async fn newest(
        &self,
        taken: Box<Taken>,
        live: LiveId,
        token: &ResumeToken,
    ) -> Result<Claimed, RequestError> {
        let mut claimed = self.claimed(Some(taken), live);
        let own = claimed.taken.as_deref().map(|taken| &taken.record);
        let Some(own) = own.filter(|own| own.holder.is_some()) else {
            return Ok(claimed);
        };
        let (fleet, tenant) = (&self.shared.fleet, own.tenant.as_deref());
        match fleet.take(tenant, own.id(), token, Some(own)).await {
            Taking::Nothing | Taking::Unreadable => {}
            Taking::Held => {
                // What is here is older than what its holder has.
                claimed.taken = None;
                return Err(held());
            }
            Taking::Taken(over) => claimed.take_over(*over, now()),
        }
        Ok(claimed)
    }

    /// Takes a stream over from another router.
    async fn take_over(
        &self,
        id: &str,
        token: &ResumeToken,
        caller: &Caller,
    ) -> Result<Claimed, RequestError> {
        let shared = &self.shared;
        if !shared.fleet.is_shared() {
            return Err(unknown());
        }
        let live = shared.live.claim(caller.tenant(), id)?;
        let mut claimed = self.claimed(None, live);
        match shared.fleet.take(caller.tenant(), id, token, None).await {
            Taking::Nothing => Err(unknown()),
            Taking::Held => Err(held()),
            Taking::Unreadable => {
                let message = "the record of this stream, which another router began, is damaged or of \
                               another version";
                Err(RequestError::new(ErrorKind::FailedPrecondition, message))
            }
            Taking::Taken(over) => {
                claimed.take_over(*over, now());
                Ok(claimed)
            }
        }
    }

    fn claimed(&self, taken: Option<Box<Taken>>, live: LiveId) -> Claimed {
        Claimed {
            shared: self.shared.clone(),
            taken,
            sharing: None,
            live: Some(live),
        }
    }
}

/// A record that its client claimed. Dropping it puts it back: its client may ask for something else, or
/// later.
#[derive(Debug)]
pub(super) struct Claimed {
    shared: Arc<Shared>,
    taken: Option<Box<Taken>>,
    sharing: Option<Sharing>,
    live: Option<LiveId>,
}

impl Claimed {
    /// The record; none only while it is being taken over.
    pub(super) fn record(&self) -> Option<&Record> {
        self.taken.as_deref().map(|taken| &taken.record)
    }

    /// What it is made of.
    pub(super) fn into_parts(mut self) -> Option<(Record, LiveId, Option<Sharing>)> {
        let live = self.live.take()?;
        let taken = self.taken.take()?;
        let mut sharing = self.sharing.take();
        if let Some(sharing) = &mut sharing {
            sharing.drops();
        }
        Some((taken.record, live, sharing))
    }

    /// Whether it came from another router.
    pub(super) fn is_taken_over(&self) -> bool {
        self.record().is_some_and(|record| record.holder.is_none()) && self.sharing.is_some()
    }

    fn take_over(&mut self, over: TakenOver, now: Instant) {
        let TakenOver { record, sharing } = over;
        if let Some(record) = record {
            if let Some(live) = &self.live {
                live.is_of(&record.request.namespace, Some(Outline::from(&record)));
            }
            self.taken = Some(Box::new(lock(&self.shared.records).taken(record, now)));
        }
        self.sharing = Some(sharing);
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        let Some(live) = self.live.take() else { return };
        let sharing = self.sharing.take();
        let Some(taken) = self.taken.take() else {
            return;
        };
        let mut taken = *taken;
        let mut records = lock(&self.shared.records);
        if !live.is_forgotten() && !live.is_aborted() {
            if let Some(sharing) = sharing {
                taken.record.holder = Some(sharing.leave(taken.record.clone()));
            }
            records.put_back(taken, now());
        }
        drop(records);
        drop(live);
    }
}

fn held() -> RequestError {
    let message = "another router holds on to the stream: try again";
    RequestError::retry(ErrorKind::Unavailable, message, RETRY_DELAY)
}
