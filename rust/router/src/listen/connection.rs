//! One accepted connection: its bytes, its place, and its patience with a silent peer.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::Handle;
use tokio::time::{Sleep, sleep};
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::transport::server::Connected;

use super::places::Place;

/// Bytes that a connection reads before all others have a turn: each may be worth a call of its own, and
/// tokio's budget counts reads, of any size.
const TURN_BYTES: usize = 16 << 10;

/// Tasks that may wait for a thread before connections that send much are read on.
///
/// Each call is a task. tokio queues those beyond 256 of a thread behind all others and takes few of them
/// while the thread has more, so connections that are read on come before the calls that they began: the
/// queue grows, and with it the wait of everyone who comes to its end.
const MOST_QUEUED: usize = 256;
/// How long a connection waits then, before it looks again.
const PAUSE: Duration = Duration::from_millis(1);
/// After so many pauses it has its turn, whatever waits: what it has begun to send must end in time.
const MOST_PAUSES: u32 = 64;

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
    /// Bytes read since it last waited or let others go first.
    turn_bytes: usize,
    /// Until it is read on though it has had its turn.
    pause: Option<Pin<Box<Sleep>>>,
    /// Pauses since its last turn.
    num_pauses: u32,
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
            turn_bytes: 0,
            pause: None,
            num_pauses: 0,
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

    /// Waits until others have had their turn, if this one has had its own.
    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.turn_bytes < TURN_BYTES {
            return Poll::Ready(());
        }
        let had_waited = self.pause.is_some();
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(context));
            self.pause = None;
        }
        if !self.place.is_prompt() && self.num_pauses < MOST_PAUSES && many_wait() {
            self.num_pauses += 1;
            let pause = self.pause.insert(Box::pin(sleep(PAUSE)));
            ready!(pause.as_mut().poll(context));
            self.pause = None;
        }
        self.turn_bytes = 0;
        self.num_pauses = 0;
        if !had_waited {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    }
}

/// Whether more tasks wait for a thread than may.
fn many_wait() -> bool {
    let runtime = Handle::try_current();
    runtime.is_ok_and(|runtime| runtime.metrics().global_queue_depth() > MOST_QUEUED)
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
        ready!(self.poll_turn(context));
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.bytes).poll_read(context, buffer);
        let num_bytes = buffer.filled().len() - before;
        match &polled {
            Poll::Pending => self.turn_bytes = 0,
            Poll::Ready(_) => self.turn_bytes += num_bytes,
        }
        if let (Poll::Ready(Ok(())), Some((left, _))) = (&polled, &mut self.awaited) {
            *left = left.saturating_sub(num_bytes);
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

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::io::AsyncWriteExt as _;

    use super::super::places::Places;
    use super::*;

    #[tokio::test]
    async fn a_connection_that_always_has_more_lets_others_go_first() {
        const SENT: usize = 10 * TURN_BYTES;
        let (mut peer, own) = tokio::io::duplex(SENT);
        peer.write_all(&vec![0; SENT]).await.unwrap();
        let silence = Duration::from_secs(60);
        let place = Places::new(1, 0, silence).take().unwrap();
        let mut connection = Connection::new(Box::new(own), place, Speaks::Http2, silence);
        let mut turns = Vec::new();
        while turns.iter().sum::<usize>() < SENT && turns.len() < 100 {
            let turn = poll_fn(|context| {
                let mut turn = 0;
                loop {
                    let mut bytes = [0; 1000];
                    let mut buffer = ReadBuf::new(&mut bytes);
                    match Pin::new(&mut connection).poll_read(context, &mut buffer) {
                        Poll::Ready(read) => read.unwrap(),
                        Poll::Pending => return Poll::Ready(turn),
                    }
                    turn += buffer.filled().len();
                }
            });
            turns.push(turn.await);
            // tokio bounds what a task reads in one poll, too.
            tokio::task::yield_now().await;
        }
        assert!(turns.len() >= 9, "{turns:?}");
        assert!(turns.iter().all(|turn| *turn < TURN_BYTES + 1000));
    }

    /// How many of `num_tasks` had run, each for `time`, when a connection beside them was read to its end.
    async fn run_before_it_was_read(
        num_tasks: usize,
        time: Duration,
        places: fn(usize, usize, Duration) -> Places,
    ) -> usize {
        let (mut peer, own) = tokio::io::duplex(4 * TURN_BYTES);
        peer.write_all(&vec![0; 4 * TURN_BYTES]).await.unwrap();
        let silence = Duration::from_secs(60);
        let place = places(1, 0, silence).take().unwrap();
        let mut connection = Connection::new(Box::new(own), place, Speaks::Http2, silence);
        // In a task: this function has a thread of its own.
        let reading = tokio::spawn(async move {
            let num_run = Arc::new(AtomicUsize::new(0));
            for _ in 0..num_tasks {
                let num_run = num_run.clone();
                tokio::spawn(async move {
                    std::thread::sleep(time);
                    num_run.fetch_add(1, Ordering::Relaxed)
                });
            }
            for _ in 0..4 * TURN_BYTES / 1024 {
                let mut bytes = [0; 1024];
                tokio::io::AsyncReadExt::read_exact(&mut connection, &mut bytes)
                    .await
                    .unwrap();
            }
            num_run.load(Ordering::Relaxed)
        });
        reading.await.unwrap()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_connection_is_read_on_once_few_tasks_wait() {
        const NUM_TASKS: usize = 30_000;
        let num_run = run_before_it_was_read(NUM_TASKS, Duration::ZERO, Places::new).await;
        assert!(num_run >= NUM_TASKS - 2 * MOST_QUEUED, "{num_run}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_connection_that_others_wait_for_is_read_on_after_each_turn() {
        const NUM_TASKS: usize = 30_000;
        let num_run = run_before_it_was_read(NUM_TASKS, Duration::ZERO, Places::prompt).await;
        assert!(num_run < NUM_TASKS - 2 * MOST_QUEUED, "{num_run}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_connection_is_read_on_after_many_pauses_though_tasks_wait() {
        const NUM_TASKS: usize = 30_000;
        let spin = Duration::from_micros(100);
        let num_run = run_before_it_was_read(NUM_TASKS, spin, Places::new).await;
        assert!(num_run < NUM_TASKS - 2 * MOST_QUEUED, "{num_run}");
    }

    #[tokio::test]
    async fn a_connection_that_let_others_go_first_goes_on_by_itself() {
        let (mut peer, own) = tokio::io::duplex(1 << 20);
        peer.write_all(&vec![7; 1 << 20]).await.unwrap();
        drop(peer);
        let silence = Duration::from_secs(60);
        let place = Places::new(1, 0, silence).take().unwrap();
        let mut connection = Connection::new(Box::new(own), place, Speaks::Http1, silence);
        let mut all = Vec::new();
        let reading = tokio::io::AsyncReadExt::read_to_end(&mut connection, &mut all);
        tokio::time::timeout(silence, reading)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(all.len(), 1 << 20);
    }
}
