//! Work that would hold a serving thread for too long.

use crate::error::{ErrorKind, RequestError};

/// Texts longer than this are tokenized off the serving threads, in bytes: below it tokenizing
/// takes less than a millisecond.
const INLINE_BYTES: usize = 4096;

/// Runs `work` on `num_bytes` of text here when it is short, else on a thread that may block.
pub(crate) async fn run<T, E>(
    num_bytes: usize,
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, RequestError>
where
    T: Send + 'static,
    E: Into<RequestError> + Send + 'static,
{
    let result = if num_bytes <= INLINE_BYTES {
        work()
    } else {
        let done = tokio::task::spawn_blocking(work).await;
        done.map_err(|_| RequestError::new(ErrorKind::Internal, "tokenizing failed"))?
    };
    result.map_err(Into::into)
}
