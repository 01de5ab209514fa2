//! Asking the router to end: once to drain, twice to stop at once.

use tokio_util::sync::CancellationToken;

/// Asks for the end from any thread. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    drain: CancellationToken,
    stop: CancellationToken,
}

impl Shutdown {
    /// Nothing asked yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks to drain; asked again, to stop at once.
    pub fn request(&self) {
        if self.drain.is_cancelled() {
            self.stop.cancel();
        }
        self.drain.cancel();
    }

    /// Resolves at the first request.
    pub(crate) async fn requested(&self) {
        self.drain.cancelled().await;
    }

    /// Resolves at the second request.
    pub(crate) async fn forced(&self) {
        self.stop.cancelled().await;
    }
}
