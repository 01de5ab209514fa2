//! A response's body that keeps its request running until it is sent.

use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Frame, SizeHint};

use super::places::Running;

/// `body`, with the request that it answers.
#[derive(Debug, Default)]
pub(crate) struct HeldBody<B> {
    body: B,
    _running: Option<Running>,
}

impl<B> HeldBody<B> {
    pub(crate) fn new(body: B, running: Option<Running>) -> Self {
        Self {
            body,
            _running: running,
        }
    }
}

impl<B: Body + Unpin> Body for HeldBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
