//! A response's body that holds what must last until it is sent.

use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Frame, SizeHint};

/// `body`, with what is dropped after its last byte.
#[derive(Debug)]
pub(crate) struct HeldBody<B, H> {
    body: B,
    _held: H,
}

impl<B, H> HeldBody<B, H> {
    pub(crate) fn new(body: B, held: H) -> Self {
        Self { body, _held: held }
    }
}

impl<B: Body + Unpin, H: Unpin> Body for HeldBody<B, H> {
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
