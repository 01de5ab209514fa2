//! Request bodies that end in time and hold no more than their share.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep};
use tonic::Status;
use tonic::body::Body;

use crate::access::BodyShare;
use crate::error::{ErrorKind, RequestError};
use crate::sync::lock;

/// A request's body under its bounds.
pub(super) struct Bounded {
    body: Body,
    share: Arc<Mutex<BodyShare>>,
    /// Bytes that it may still have.
    left: usize,
    timeout: Duration,
    end: Pin<Box<Sleep>>,
    /// Whether each message has its own time: a conversation, not one request.
    is_conversation: bool,
}

impl Bounded {
    /// A body of at most `limit` bytes, counted in `share` and whole within `timeout`; in a conversation, each
    /// message.
    pub(super) fn new(
        body: Body,
        share: Arc<Mutex<BodyShare>>,
        limit: usize,
        timeout: Duration,
        is_conversation: bool,
    ) -> Self {
        Self {
            body,
            share,
            left: limit,
            timeout,
            end: Box::pin(tokio::time::sleep(timeout)),
            is_conversation,
        }
    }
}

impl hyper::body::Body for Bounded {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        let frame = match Pin::new(&mut this.body).poll_frame(context) {
            Poll::Ready(frame) => frame,
            Poll::Pending if this.end.as_mut().poll(context).is_ready() => {
                return Poll::Ready(Some(Err(too_slow(this.timeout))));
            }
            Poll::Pending => return Poll::Pending,
        };
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            if data.len() > this.left {
                return Poll::Ready(Some(Err(too_large())));
            }
            this.left -= data.len();
            if let Err(full) = lock(&this.share).add(data.len()) {
                return Poll::Ready(Some(Err(full.into())));
            }
            if this.is_conversation {
                this.end.as_mut().reset(Instant::now() + this.timeout);
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn too_slow(limit: Duration) -> Status {
    let seconds = limit.as_secs_f64();
    let message = format!("the request was not complete after {seconds} seconds");
    RequestError::new(ErrorKind::DeadlineExceeded, message).into()
}

fn too_large() -> Status {
    let message = "the call sent more bytes than its method takes";
    RequestError::new(ErrorKind::TooLarge, message).into()
}
