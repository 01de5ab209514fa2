//! One accepted connection: its bytes, its place, and its patience with a silent peer.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::transport::server::Connected;

use super::places::Place;

/// What a peer must say first, and soon, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    /// The shortest request line; the server times the rest of the header.
    Http1 = 16,
    /// The preface of a connection and the header of its first frame.
    Http2 = 33,
}

/// Bytes of any connection.
pub(crate) trait Bytes: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Bytes for T {}

/// A connection of any kind.
pub(crate) struct Connection {
    bytes: Box<dyn Bytes>,
    place: Place,
    speaks: Speaks,
    closing: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Until the peer has said enough: bytes that are still awaited, and for how long.
    awaited: Option<(usize, Pin<Box<Sleep>>)>,
}

impl Connection {
    /// Wraps what was accepted; a peer that does not begin as `speaks` says within `silence` is
    /// dropped.
    pub(super) fn new(
        bytes: Box<dyn Bytes>,
        place: Place,
        speaks: Speaks,
        silence: Duration,
    ) -> Self {
        Self {
            bytes,
            closing: Box::pin(place.close().clone().cancelled_owned()),
            place,
            speaks,
            awaited: Some((speaks as usize, Box::pin(sleep(silence)))),
        }
    }

    /// What its peer speaks.
    pub(crate) fn speaks(&self) -> Speaks {
        self.speaks
    }

    /// Its place.
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Whether it may go on.
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if self.closing.as_mut().poll(context).is_ready() {
            let message = "closed, because its place was needed";
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, message));
        }
        if let Some((_, end)) = &mut self.awaited
            && end.as_mut().poll(context).is_ready()
        {
            let message = "the peer was silent";
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        Ok(())
    }
}

impl Connected for Connection {
    type ConnectInfo = Place;

    fn connect_info(&self) -> Place {
        self.place.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.bytes).poll_read(context, buffer);
        if let (Poll::Ready(Ok(())), Some((left, _))) = (&polled, &mut self.awaited) {
            *left = left.saturating_sub(buffer.filled().len() - before);
            if *left == 0 {
                self.awaited = None;
            }
        }
        polled
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.bytes).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.bytes).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.bytes.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.bytes).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.bytes).poll_shutdown(context)
    }
}
