//! What happens to every public call before and after its method: deadlines and transport errors.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use tonic::Status;
use tower::{Layer, Service};

use crate::error::{ErrorKind, RequestError};

const TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
/// Five ticks of the runtime's timers.
const HEAD_START: Duration = Duration::from_millis(5);
const STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// When the caller's patience ends, as a request extension.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(pub(crate) Instant);

/// Adds [`GuardService`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct GuardLayer {
    pub(crate) max_message_bytes: usize,
}

impl<S> Layer<S> for GuardLayer {
    type Service = GuardService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        GuardService {
            inner,
            max_message_bytes: self.max_message_bytes,
        }
    }
}

/// Reads `grpc-timeout` and rewrites the statuses that tonic makes itself.
#[derive(Clone, Debug)]
pub(crate) struct GuardService<S> {
    inner: S,
    max_message_bytes: usize,
}

impl<S, B, R> Service<Request<B>> for GuardService<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
    R: Default,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        if let Some(header) = request.headers().get(TIMEOUT)
            && let Some(timeout) = parse_timeout(header)
            && let Some(deadline) = Instant::now().checked_add(ahead_of(timeout))
        {
            request.extensions_mut().insert(Deadline(deadline));
        }
        let max_message_bytes = self.max_message_bytes;
        let answer = self.inner.call(request);
        Box::pin(async move {
            let response = answer.await?;
            Ok(match too_large(response.headers(), max_message_bytes) {
                Some(status) => status.into_http(),
                None => response,
            })
        })
    }
}

/// The status to send instead, when tonic refused a message for its size.
fn too_large(headers: &HeaderMap, max_message_bytes: usize) -> Option<Status> {
    if headers.get(STATUS)?.as_bytes() != b"11" {
        return None;
    }
    let original = Status::from_header_map(headers)?;
    let message = format!(
        "{}; allowed: up to {max_message_bytes} bytes",
        original.message().trim_start_matches("Error, ")
    );
    Some(RequestError::new(ErrorKind::TooLarge, message).into())
}

/// A little less than `timeout`: tonic keeps it too, and would answer CANCELLED without details.
fn ahead_of(timeout: Duration) -> Duration {
    timeout.saturating_sub((timeout / 4).min(HEAD_START))
}

/// Reads a `grpc-timeout` value: up to 8 digits and a unit.
fn parse_timeout(header: &HeaderValue) -> Option<Duration> {
    let text = header.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(count * 3600)),
        "M" => Some(Duration::from_secs(count * 60)),
        "S" => Some(Duration::from_secs(count)),
        "m" => Some(Duration::from_millis(count)),
        "u" => Some(Duration::from_micros(count)),
        "n" => Some(Duration::from_nanos(count)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_in_every_unit() {
        let parse = |text: &'static str| parse_timeout(&HeaderValue::from_static(text));
        assert_eq!(parse("2H"), Some(Duration::from_secs(7200)));
        assert_eq!(parse("15m"), Some(Duration::from_millis(15)));
        assert_eq!(parse("99999999n"), Some(Duration::from_nanos(99_999_999)));
        for bad in ["", "m", "5", "123456789S", "-1S", "1.5S", "1x"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
