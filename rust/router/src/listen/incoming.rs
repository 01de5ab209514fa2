//! Connections as they come, each with its place.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use futures_core::Stream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::connection::{Bytes, Connection, Speaks};
use super::places::{Place, Places};
use super::socket::Listener;
use super::tls::Tls;

/// Pause after a failed accept, so that a process without free file descriptors does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How often a failure to accept is logged.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// HTTP/2 in ALPN's words.
pub(crate) const ALPN_HTTP2: &[u8] = b"h2";
/// HTTP/1.1 in ALPN's words.
pub(crate) const ALPN_HTTP1: &[u8] = b"http/1.1";

/// A listener whose connections have places.
pub(crate) struct Incoming {
    listener: Listener,
    places: Places,
    speaks: Speaks,
    tls: Option<Tls>,
    handshakes: JoinSet<Option<Connection>>,
    logged: Option<Instant>,
}

impl Incoming {
    /// Accepts what comes to `listener`, as far as `places` allow, with `tls` where it is TCP.
    pub(crate) fn new(
        listener: Listener,
        places: Places,
        speaks: Speaks,
        tls: Option<Tls>,
    ) -> Self {
        Self {
            tls: tls.filter(|_| listener.is_tcp()),
            listener,
            places,
            speaks,
            handshakes: JoinSet::new(),
            logged: None,
        }
    }

    /// Whether only this machine reaches it.
    pub(crate) fn is_private(&self) -> bool {
        !self.listener.is_public()
    }

    /// The next connection. Cancelling loses none.
    pub(crate) async fn accept(&mut self) -> Connection {
        loop {
            let accepted = tokio::select! {
                Some(shaken) = self.handshakes.join_next() => {
                    if let Ok(Some(connection)) = shaken {
                        return connection;
                    }
                    continue;
                }
                accepted = next(&self.places, &self.listener) => accepted,
            };
            match accepted {
                Ok(bytes) => {
                    if let Some(connection) = self.begin(bytes) {
                        return connection;
                    }
                }
                Err(error) => {
                    self.log(&error);
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// A connection that can be served at once; one with TLS must shake hands first.
    fn begin(&mut self, bytes: Box<dyn Bytes>) -> Option<Connection> {
        let Some(place) = self.places.take() else {
            tracing::debug!("a connection was closed: every place is busy");
            return None;
        };
        let silence = self.places.silence();
        let Some(tls) = &self.tls else {
            return Some(Connection::new(bytes, place, self.speaks, silence));
        };
        let shaking = shake(tls.acceptor(), bytes, place, self.speaks, silence);
        self.handshakes.spawn(shaking);
        None
    }

    fn log(&mut self, error: &io::Error) {
        if self
            .logged
            .is_none_or(|logged| logged.elapsed() >= LOG_EVERY)
        {
            self.logged = Some(Instant::now());
            tracing::warn!(%error, "could not accept a connection");
        }
    }

    /// The connections as a stream, which does not end.
    pub(crate) fn stream(self) -> impl Stream<Item = Result<Connection, Infallible>> {
        futures_util::stream::unfold(self, |mut incoming| async move {
            let connection = incoming.accept().await;
            Some((Ok(connection), incoming))
        })
    }
}

/// The bytes of the next connection, once those that must close have closed.
async fn next(places: &Places, listener: &Listener) -> io::Result<Box<dyn Bytes>> {
    places.settled().await;
    listener.accept().await
}

/// A connection whose peer has shown what TLS asks of it.
async fn shake(
    acceptor: TlsAcceptor,
    bytes: Box<dyn Bytes>,
    place: Place,
    speaks: Speaks,
    silence: Duration,
) -> Option<Connection> {
    let clear = Connection::new(bytes, place.clone(), speaks, silence);
    let stream = match timeout(silence, acceptor.accept(clear)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(%error, "a handshake of TLS failed");
            return None;
        }
        Err(_) => return None,
    };
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(ALPN_HTTP2);
    let speaks = if is_http2 { Speaks::Http2 } else { speaks };
    Some(Connection::new(Box::new(stream), place, speaks, silence))
}
