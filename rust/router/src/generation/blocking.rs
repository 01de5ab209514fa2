//! Work that would hold a serving thread for too long, and would take too much memory all at once.

use std::time::Instant;

use crate::access::{Room, Turns};
use crate::error::{ErrorKind, RequestError};

/// Texts longer than this are tokenized off the serving threads, in bytes: below it tokenizing
/// takes less than a millisecond.
const INLINE_BYTES: usize = 4096;

/// Threads that tokenize, one for each core, which tenants use in turn; and room for the texts that wait
/// for them.
#[derive(Debug)]
pub(crate) struct TextPool {
    threads: Turns,
    /// For texts that are tokenized or wait for it.
    room: Room,
}

/// Whose text it is, and until when its tokens are of use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker<'a> {
    pub(crate) tenant: Option<&'a str>,
    pub(crate) deadline: Instant,
}

impl TextPool {
    /// A pool in which texts of about `limit` bytes together are tokenized or wait; see [`Room`].
    pub(crate) fn new(limit: usize) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            threads: Turns::new(threads),
            room: Room::new(limit),
        }
    }

    /// Runs `work` on `num_bytes` of text here when it is short, else on a thread of the pool.
    ///
    /// # Errors
    /// What `work` says; [`ErrorKind::QueueFull`] when the caller has as many texts here as it may, and
    /// [`ErrorKind::DeadlineExceeded`] when it waits longer than its deadline.
    pub(crate) async fn run<T, E>(
        &self,
        asker: Asker<'_>,
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
        let Asker { tenant, deadline } = asker;
        let room = self.room.hold(tenant, num_bytes, "texts to be tokenized")?;
        let thread = self
            .threads
            .seat(tenant, num_bytes, deadline, "the text was tokenized")
            .await?;
        // Both are held until the work ends, also when the caller has gone.
        let work = move || {
            let result = work();
            drop((room, thread));
            result
        };
        let done = tokio::task::spawn_blocking(work).await;
        let failed = |_| RequestError::new(ErrorKind::Internal, "tokenizing failed");
        done.map_err(failed)?.map_err(Into::into)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use tokio::task::JoinHandle;

    use super::*;
    use crate::sync::{lock, now};

    const NUM_BYTES: usize = 100 << 10;

    fn of(tenant: &str) -> Asker<'_> {
        Asker {
            tenant: Some(tenant),
            deadline: now() + Duration::from_secs(600),
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "it is what is run")]
    fn done() -> Result<(), RequestError> {
        Ok(())
    }

    /// A pool of one thread, on which ann's text is tokenized until something is sent.
    async fn busy() -> (
        Arc<TextPool>,
        Sender<()>,
        JoinHandle<Result<(), RequestError>>,
    ) {
        let pool = Arc::new(TextPool {
            threads: Turns::new(1),
            room: Room::new(10 * NUM_BYTES),
        });
        let (release, held) = channel::<()>();
        let (begun, beginning) = tokio::sync::oneshot::channel();
        let first = tokio::spawn({
            let pool = pool.clone();
            let work = move || {
                let _ = begun.send(());
                held.recv()
                    .map_err(|_| RequestError::new(ErrorKind::Internal, "the test ended"))
            };
            async move { pool.run(of("ann"), NUM_BYTES, work).await }
        });
        beginning.await.unwrap();
        (pool, release, first)
    }

    #[tokio::test]
    async fn texts_of_a_tenant_that_fills_the_pool_delay_another_by_one_and_refuse_it_never() {
        let (pool, release, first) = busy().await;
        let ended: Arc<Mutex<Vec<&str>>> = Arc::default();
        let mut waiting = vec![first];
        for (tenant, num_waiting) in [("ann", 7), ("bob", 8)] {
            while pool.threads.num_waiting() < num_waiting {
                let before = pool.threads.num_waiting();
                let (one, ended) = (pool.clone(), ended.clone());
                waiting.push(tokio::spawn(async move {
                    let work = move || {
                        lock(&ended).push(tenant);
                        done()
                    };
                    one.run(of(tenant), NUM_BYTES, work).await
                }));
                while pool.threads.num_waiting() == before {
                    tokio::task::yield_now().await;
                }
            }
        }
        let refused = pool.run(of("ann"), NUM_BYTES, done).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::QueueFull);
        assert!(refused.retry_after.is_some());
        assert!(
            refused.message.starts_with("texts to be tokenized hold"),
            "{refused}"
        );
        assert_eq!(pool.run(of("ann"), 10, done).await, Ok(()), "a short one");
        release.send(()).unwrap();
        for task in waiting {
            assert_eq!(task.await.unwrap(), Ok(()));
        }
        assert_eq!(lock(&ended)[0], "bob");
        assert_eq!(pool.room.total(), 0);
    }

    #[tokio::test]
    async fn text_waits_no_longer_than_its_deadline() {
        let (pool, release, first) = busy().await;
        let late = Asker {
            deadline: now(),
            ..of("bob")
        };
        let error = pool.run(late, NUM_BYTES, done).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::DeadlineExceeded);
        assert_eq!(pool.room.total(), NUM_BYTES, "ann's alone");
        release.send(()).unwrap();
        assert_eq!(first.await.unwrap(), Ok(()));
    }
}
