//! Work that would hold a serving thread for too long, and would take too much memory all at once.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::refusal::RETRY_DELAY;
use crate::error::{ErrorKind, RequestError};

/// Texts longer than this are tokenized off the serving threads, in bytes: below it tokenizing
/// takes less than a millisecond.
const INLINE_BYTES: usize = 4096;
/// Unit in which waiting texts are counted, in bytes.
const UNIT_BYTES: usize = 1024;

/// Threads that tokenize: one for each core, and a bounded queue before them.
#[derive(Debug)]
pub(crate) struct TextPool {
    threads: Arc<Semaphore>,
    /// Room for texts that are tokenized or wait for it.
    room: Arc<Semaphore>,
    limit: usize,
}

impl TextPool {
    /// A pool in which texts of up to `limit` bytes together are tokenized or wait.
    pub(crate) fn new(limit: usize) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            threads: Arc::new(Semaphore::new(threads)),
            room: Arc::new(Semaphore::new(limit.div_ceil(UNIT_BYTES))),
            limit,
        }
    }

    /// Runs `work` on `num_bytes` of text here when it is short, else on a thread of the pool.
    ///
    /// # Errors
    /// What `work` says; [`ErrorKind::QueueFull`] when other texts leave no room for this one.
    pub(crate) async fn run<T, E>(
        &self,
        num_bytes: usize,
        work: impl FnOnce() -> Result<T, E> + Send + 'static,
    ) -> Result<T, RequestError>
    where
        T: Send + 'static,
        E: Into<RequestError> + Send + 'static,
    {
        if num_bytes <= INLINE_BYTES {
            return work().map_err(Into::into);
        }
        let units = u32::try_from(num_bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX);
        let room = self.room.clone().try_acquire_many_owned(units);
        let Ok(room) = room else {
            let limit = self.limit;
            let message = format!("texts of {limit} bytes are being tokenized; allowed: no more");
            return Err(RequestError::retry(
                ErrorKind::QueueFull,
                message,
                RETRY_DELAY,
            ));
        };
        let failed = || RequestError::new(ErrorKind::Internal, "tokenizing failed");
        let thread = self.threads.clone().acquire_owned().await;
        let thread = thread.map_err(|_| failed())?;
        // Both are held until the work ends, also when the caller has gone.
        let work = move || {
            let result = work();
            drop((room, thread));
            result
        };
        let done = tokio::task::spawn_blocking(work).await;
        done.map_err(|_| failed())?.map_err(Into::into)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn texts_beyond_the_room_are_refused_and_short_ones_pass() {
        let pool = Arc::new(TextPool::new(64 << 10));
        let (release, held) = mpsc::channel::<()>();
        let busy = pool.clone();
        let first = tokio::spawn(async move {
            let work = move || held.recv().map_err(|_| refusal());
            busy.run(60 << 10, work).await
        });
        while pool.room.available_permits() == 64 {
            tokio::task::yield_now().await;
        }
        let refused = pool.run(8 << 10, || Ok::<_, RequestError>(())).await;
        assert_eq!(refused.unwrap_err().kind, ErrorKind::QueueFull);
        assert_eq!(pool.run(10, || Ok::<_, RequestError>(7)).await, Ok(7));
        release.send(()).unwrap();
        assert_eq!(first.await.unwrap(), Ok(()));
        assert_eq!(pool.run(8 << 10, || Ok::<_, RequestError>(8)).await, Ok(8));
    }

    fn refusal() -> RequestError {
        RequestError::new(ErrorKind::Internal, "the test ended")
    }
}
