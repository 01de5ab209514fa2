//! Streams whose client does not read: they end, so that they hold neither places nor a drain.
//!
//! A stream that is not asked for its next event cannot notice its own deadline, so a task of its
//! own watches it.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures_core::Stream;
use spectrie_proto::v1;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use crate::error::{ErrorKind, RequestError};
use crate::metrics::Call;
use crate::sync::{lock, now};
use crate::workers::Mailbox;

/// How long a stream that is read has to notice its deadline itself.
const GRACE: Duration = Duration::from_secs(1);

/// Patience with a client that does not read, while the router drains.
const DRAIN_PATIENCE: Duration = Duration::from_secs(2);

pub(super) type Item = Result<v1::GenerateEvent, RequestError>;
type Events = Pin<Box<dyn Stream<Item = Item> + Send>>;

/// How long a stream may last, and lie unread.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    pub(super) deadline: Instant,
    pub(super) patience: Duration,
    pub(super) draining: CancellationToken,
    pub(super) call: Call,
}

/// The events of a stream, until its reader has them or is given up.
pub(super) struct Watched {
    slot: Arc<Slot>,
    watch: AbortHandle,
}

/// What the reader and the watch share.
pub(super) struct Slot {
    mailbox: Arc<Mailbox>,
    state: Mutex<State>,
}

struct State {
    /// None once the stream has ended.
    events: Option<Events>,
    /// Why the watch ended it, until the reader asks.
    ended: Option<RequestError>,
    /// When the reader last asked, and whether it got an event.
    asked: (Instant, bool),
    reader: Option<Waker>,
}

impl Watched {
    /// Watches `events`, which come from `mailbox`. Must be called on a runtime.
    pub(super) fn new(events: Events, mailbox: Arc<Mailbox>, bounds: Bounds) -> Self {
        let state = State {
            events: Some(events),
            ended: None,
            asked: (now(), true),
            reader: None,
        };
        let slot = Arc::new(Slot {
            mailbox,
            state: Mutex::new(state),
        });
        let watch = tokio::spawn(watch(Arc::downgrade(&slot), bounds)).abort_handle();
        Self { slot, watch }
    }

    /// What others end the stream by.
    pub(super) fn slot(&self) -> Weak<Slot> {
        Arc::downgrade(&self.slot)
    }

    pub(super) fn poll_next(&self, context: &mut Context<'_>) -> Poll<Option<Item>> {
        let mut state = lock(&self.slot.state);
        let Some(events) = state.events.as_mut() else {
            return Poll::Ready(state.ended.take().map(Err));
        };
        let polled = events.as_mut().poll_next(context);
        state.asked = (now(), polled.is_ready());
        match polled {
            Poll::Ready(None) => state.events = None,
            Poll::Ready(Some(_)) => {}
            Poll::Pending => match &mut state.reader {
                Some(reader) => reader.clone_from(context.waker()),
                None => state.reader = Some(context.waker().clone()),
            },
        }
        polled
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Slot").finish_non_exhaustive()
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Watched").finish_non_exhaustive()
    }
}

impl Slot {
    /// Since when something waits for the reader to ask.
    fn unread_since(&self) -> Option<Instant> {
        let (asked, got_event) = {
            let state = lock(&self.state);
            state.events.as_ref()?;
            state.asked
        };
        if got_event {
            return Some(asked);
        }
        // A reader that found nothing hears of what comes; it may be busy sending what it had.
        self.mailbox.unclaimed_since().map(|since| since.max(asked))
    }

    fn end_unread(&self, error: RequestError) {
        tracing::warn!(%error, "a stream was ended that its client does not read");
        self.end(error);
    }

    /// Ends the stream: what runs of it is cancelled, and its reader gets the error.
    pub(super) fn end(&self, error: RequestError) {
        let mut state = lock(&self.state);
        let Some(events) = state.events.take() else {
            return;
        };
        state.ended = Some(error);
        let reader = state.reader.take();
        drop(state);
        drop(events);
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

/// Ends a stream that is not read for too long, or at its deadline.
async fn watch(slot: Weak<Slot>, bounds: Bounds) {
    let latest = bounds.deadline + GRACE;
    loop {
        let is_draining = bounds.draining.is_cancelled();
        let patience = if is_draining {
            bounds.patience.min(DRAIN_PATIENCE)
        } else {
            bounds.patience
        };
        let now = now();
        let next = {
            let Some(slot) = slot.upgrade() else { return };
            let since = slot.unread_since();
            if now >= latest {
                bounds.call.failed(ErrorKind::DeadlineExceeded);
                let message = "the deadline passed before the answer was read";
                slot.end_unread(RequestError::new(ErrorKind::DeadlineExceeded, message));
                return;
            }
            let end = since.unwrap_or(now) + patience;
            if end <= now {
                let seconds = patience.as_secs_f64();
                let message = format!("nothing of the answer was read for {seconds} s");
                slot.end_unread(RequestError::new(ErrorKind::Cancelled, message));
                return;
            }
            end.min(latest)
        };
        tokio::select! {
            () = tokio::time::sleep_until(next.into()) => {}
            () = bounds.draining.cancelled(), if !is_draining => {}
        }
    }
}
