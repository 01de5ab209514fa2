//! What happens to every call before and after its method: who calls, how much may arrive, until
//! when it counts, and errors of the transport in our words.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use tonic::body::Body;
use tonic::{Code, Status};
use tower::{Layer, Service};

use super::bounded::Bounded;
use super::gate::{Gate, Purpose};
use crate::access::{Bodies, BodyShare, Grant};
use crate::error::{ErrorKind, RequestError};
use crate::listen::{Answer, Answers, Client, Kept, Place, Running};
use crate::metrics::Call;

const TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
/// Five ticks of the runtime's timers.
const HEAD_START: Duration = Duration::from_millis(5);
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");

/// When the caller's patience ends, as a request extension.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(pub(crate) Instant);

/// Bytes of a call of health, with room to spare.
const MAX_PROBE_BYTES: usize = 4 << 10;
/// Bytes of a conversation with reflection.
const MAX_REFLECTION_BYTES: usize = 1 << 20;
/// Frame of a message, with room to spare.
const FRAME_BYTES: usize = 1 << 10;

/// What calls of one listener pass. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct GuardLayer {
    gate: Gate,
    max_message_bytes: usize,
    budgets: Budgets,
    answers: Answers,
}

/// What the bodies of calls may hold. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Budgets {
    /// Of calls that showed what the gate asks.
    pub(crate) keyed: Bodies,
    /// Of short calls that anyone may make.
    pub(crate) open: Bodies,
    /// Of such calls that last: health that is watched, conversations with reflection.
    pub(crate) lasting: Bodies,
}

impl GuardLayer {
    /// Lets in what `gate` says, with messages of up to `max_message_bytes` within `budgets`; answers are listed
    /// among `answers`.
    pub(crate) fn new(
        gate: Gate,
        max_message_bytes: usize,
        budgets: Budgets,
        answers: Answers,
    ) -> Self {
        Self {
            gate,
            max_message_bytes,
            budgets,
            answers,
        }
    }

    /// The place that a call holds while it runs; calls that anyone may make hold none.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] where every place is busy: only health answers then.
    fn hold(request: &Request<Body>) -> Result<Option<Running>, RequestError> {
        let place = request.extensions().get::<Place>();
        let Some(place) = place.filter(|_| Purpose::of(request.uri()) == Purpose::Work) else {
            return Ok(None);
        };
        place.run().map(Some).ok_or_else(|| {
            let message = "every connection that this server may have is busy";
            RequestError::retry(ErrorKind::Unavailable, message, Duration::from_secs(1))
        })
    }

    /// Checks who calls and bounds what they send. Calls that anyone may make count until they are answered: health
    /// can be watched for ever.
    fn admit(
        &self,
        mut request: Request<Body>,
        call: &Call,
    ) -> Result<(Request<Body>, Held), RequestError> {
        let granted = self.gate.enter(request.uri(), request.headers())?;
        call.of_tenant(granted.0.as_ref().map(Grant::tenant));
        request.extensions_mut().insert(call.clone());
        let purpose = Purpose::of(request.uri());
        let (kept, limit) = match purpose {
            Purpose::Probe => (Kept::Open, MAX_PROBE_BYTES),
            Purpose::Watch => (Kept::Lasting, MAX_PROBE_BYTES),
            Purpose::Reflection => (Kept::Lasting, MAX_REFLECTION_BYTES),
            Purpose::Work => (Kept::Keyed, self.max_message_bytes + FRAME_BYTES),
        };
        let bodies = match kept {
            Kept::Open => &self.budgets.open,
            Kept::Lasting => &self.budgets.lasting,
            Kept::Keyed => &self.budgets.keyed,
        };
        let tenant = granted.0.as_ref().map(|grant| grant.tenant().to_owned());
        request.extensions_mut().insert(granted);
        if let Some(header) = request.headers().get(TIMEOUT)
            && let Some(timeout) = parse_timeout(header)
            && let Some(deadline) = Instant::now().checked_add(ahead_of(timeout))
        {
            request.extensions_mut().insert(Deadline(deadline));
        }
        let is_conversation = purpose == Purpose::Reflection;
        let (head, body) = request.into_parts();
        let place = head.extensions.get::<Place>().cloned();
        let connection = place.as_ref().map(|place| place.bodies(kept));
        let share = bodies.begin(connection, tenant.as_deref(), limit)?;
        let share = Arc::new(Mutex::new(share));
        let open = (purpose != Purpose::Work).then(|| share.clone());
        let body = Bounded::new(body, share, limit, bodies.timeout(), is_conversation);
        let request = Request::from_parts(head, Body::new(body));
        let held = Held {
            running: Self::hold(&request)?,
            tenant: tenant.map(Arc::from),
            place,
            _open: open,
            call: call.clone(),
        };
        Ok((request, held))
    }
}

impl<S> Layer<S> for GuardLayer {
    type Service = GuardService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        GuardService {
            inner,
            layer: self.clone(),
        }
    }
}

/// What lasts until an answer is sent.
#[derive(Debug)]
pub(crate) struct Held {
    running: Option<Running>,
    tenant: Option<Arc<str>>,
    place: Option<Place>,
    _open: Option<Arc<Mutex<BodyShare>>>,
    call: Call,
}

/// Runs a call as [`GuardLayer`] says, and rewrites the statuses that tonic makes itself.
#[derive(Clone, Debug)]
pub(crate) struct GuardService<S> {
    inner: S,
    layer: GuardLayer,
}

impl<S, R> Service<Request<Body>> for GuardService<S>
where
    S: Service<Request<Body>, Response = Response<R>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    R: hyper::body::Body<Data = Bytes> + Default + Send + 'static,
{
    type Response = Response<Answer<R, Held>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let uri = request.uri().clone();
        let call = self.layer.gate.note(&uri, request.headers());
        let (request, held) = match self.layer.admit(request, &call) {
            Ok(admitted) => admitted,
            Err(error) => {
                self.layer.gate.count_refused(&uri, &error);
                call.failed(error.kind);
                call.answered(&name(error.kind.grpc_code()));
                let refused = Status::from(error).into_http();
                return Box::pin(async move { Ok(refused) });
            }
        };
        let max_message_bytes = self.layer.max_message_bytes;
        let answers = self.layer.answers.clone();
        let answer = self.inner.call(request);
        Box::pin(async move {
            let response = answer.await?;
            let reworded = reworded(response.headers(), max_message_bytes);
            let status = reworded
                .as_ref()
                .map_or_else(|| code(response.headers()), Status::code);
            held.call.answered(&name(status));
            Ok(match reworded {
                Some(status) => status.into_http(),
                None => response.map(|body| {
                    let client = Client {
                        turn: held.running.as_ref().map(Running::turn).unwrap_or_default(),
                        tenant: held.tenant.clone(),
                        place: held.place.clone(),
                    };
                    Answer::new(&answers, body, held, client)
                }),
            })
        })
    }
}

/// The code of an answer that is known with its headers; a stream's may still change.
fn code(headers: &HeaderMap) -> Code {
    let status = headers.get(STATUS);
    status.map_or(Code::Ok, |status| Code::from_bytes(status.as_bytes()))
}

/// A code's name, as calls are counted by it.
fn name(code: Code) -> String {
    format!("{code:?}")
}

/// The status to send instead, when tonic refused a message for its size or could not read it.
fn reworded(headers: &HeaderMap, max_message_bytes: usize) -> Option<Status> {
    let code = headers.get(STATUS)?.as_bytes();
    // Our own statuses carry details.
    if (code != b"11" && code != b"13") || headers.contains_key(DETAILS) {
        return None;
    }
    let original = Status::from_header_map(headers)?;
    let original_message = original.message();
    if code == b"11" {
        let message = format!(
            "{}; allowed: up to {max_message_bytes} bytes",
            original_message.trim_start_matches("Error, ")
        );
        return Some(RequestError::new(ErrorKind::TooLarge, message).into());
    }
    let message = format!("given bytes that are not the method's message: {original_message}");
    Some(RequestError::invalid("message", message).into())
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
