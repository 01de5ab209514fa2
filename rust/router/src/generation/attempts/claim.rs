//! How a client gets hold of its stream's record, which a running stream leaves first.

use std::sync::Arc;
use std::time::Duration;

use super::go_on::{Resume, unknown};
use crate::error::{ErrorKind, RequestError};
use crate::failover::Outline;
use crate::failover::{ResumeToken, Taken};
use crate::generation::live::{Live, LiveId};
use crate::generation::refusal::RETRY_DELAY;
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
    ) -> Result<(Taken, LiveId), RequestError> {
        let until = tokio::time::Instant::from_std(now() + LEAVING);
        loop {
            let (running, outline) = match self.find_stream(id, token, caller)? {
                Found::Cut(taken, live) => return Ok((*taken, live)),
                Found::Running(running, outline) => (running, outline),
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

    /// Puts back what was claimed: its client may ask for something else, or later.
    pub(super) fn put_back(&self, taken: Taken, live: LiveId) {
        let mut records = lock(&self.shared.records);
        if !live.is_forgotten() && !live.is_aborted() {
            records.put_back(taken, now());
        }
        drop(records);
        drop(live);
    }
}
