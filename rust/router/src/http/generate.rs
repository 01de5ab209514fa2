//! `POST /v1/chat/completions` and `POST /v1/completions`: read, run, answer whole or as a stream;
//! `GET /v1/streams/{request_id}`: go on with a stream that was cut.

use std::time::Instant;

use axum::Extension;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use spectrie_proto::v1;
use uuid::Uuid;

use crate::access::{BodyShare, Turns};
use crate::error::{ErrorKind, RequestError};
use crate::state::AppState;
use crate::sync::now;

use super::answer::events::{Happened, Running};
use super::answer::logprobs::{Logprobs, PromptLogprobs};
use super::answer::response::{Answer, Choice, Message, Stop, finish_reason};
use super::answer::stream::stream_answer;
use super::body;
use super::convert::{ApiRequest, Endpoint, convert};
use super::error::HttpError;
use super::layers::{Granted, RequestId, X_SPECTRIE_IGNORED};

/// Bodies up to this length are parsed at once, in well under a millisecond.
const INLINE_BYTES: usize = 64 << 10;

/// The last event of a stream that a client has.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// The secret from a stream's first event.
const X_RESUME_TOKEN: HeaderName = HeaderName::from_static("x-spectrie-resume-token");

/// Longest text of names in the header of ignored fields.
const IGNORED_BYTES: usize = 1024;

/// `POST /v1/chat/completions`
pub(super) async fn chat(
    State(state): State<AppState>,
    Extension(granted): Extension<Granted>,
    Extension(id): Extension<RequestId>,
    request: Request,
) -> Result<Response, HttpError> {
    answer(Endpoint::Chat, state, granted, id, request).await
}

/// `POST /v1/completions`
pub(super) async fn completions(
    State(state): State<AppState>,
    Extension(granted): Extension<Granted>,
    Extension(id): Extension<RequestId>,
    request: Request,
) -> Result<Response, HttpError> {
    answer(Endpoint::Completions, state, granted, id, request).await
}

/// `GET /v1/streams/{request_id}`
pub(super) async fn resume(
    State(state): State<AppState>,
    Extension(granted): Extension<Granted>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, HttpError> {
    let token = header(&headers, &X_RESUME_TOKEN)?.ok_or_else(|| {
        let name = X_RESUME_TOKEN;
        let message = format!("{name}: required, the resume_token of the stream's first event");
        HttpError::invalid(name.as_str(), message)
    })?;
    let last = header(&headers, &LAST_EVENT_ID)?;
    let (running, encoder) = Running::resume(&state, &id, token, last, &granted.caller()).await?;
    Ok(stream_answer(running, encoder))
}

/// A header's text.
fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, HttpError> {
    let Some(value) = headers.get(name) else {
        return Ok(None);
    };
    let text = value.to_str().map_err(|_| {
        let message = format!("{name}: allowed: printable ascii characters");
        HttpError::invalid(name.as_str(), message)
    })?;
    Ok(Some(text))
}

async fn answer(
    endpoint: Endpoint,
    state: AppState,
    granted: Granted,
    name: RequestId,
    request: Request,
) -> Result<Response, HttpError> {
    let (bytes, share) = body::read(
        request,
        state.config.limits.max_message_bytes,
        &state.bodies,
        granted.tenant(),
    )
    .await?;
    let body = Body {
        bytes,
        share,
        tenant: granted.tenant(),
        deadline: state.generation.deadline(None, now()),
    };
    let mut api = body.decode(endpoint, &state.long_bodies).await?;
    // The header's name is for logs and may be shared by the calls of one trace; a name in the body
    // must be unique.
    let id = api
        .request_id
        .take()
        .unwrap_or_else(|| Uuid::new_v4().simple().to_string());
    tracing::debug!(request_id = name.0, id, "generating");
    let caller = granted.caller();
    caller.call.named(&id);
    let mut running = Running::start(&state, &mut api, &id, caller).await?;
    let mut response = if api.stream {
        let encoder = running.encoder(api.extras);
        stream_answer(running, encoder)
    } else {
        whole_answer(running, &api).await?
    };
    if let Some(ignored) = ignored_header(&api.ignored) {
        response.headers_mut().insert(X_SPECTRIE_IGNORED, ignored);
    }
    Ok(response)
}

/// A body that has arrived.
struct Body<'a> {
    bytes: Bytes,
    /// What it holds until it is converted.
    share: BodyShare,
    tenant: Option<&'a str>,
    deadline: Instant,
}

impl Body<'_> {
    /// Parses and converts it; a long one on another thread, so that no stream waits for it, when its
    /// tenant has a turn.
    async fn decode(
        self,
        endpoint: Endpoint,
        long_bodies: &Turns,
    ) -> Result<ApiRequest, HttpError> {
        let Self {
            bytes,
            share,
            tenant,
            deadline,
        } = self;
        if bytes.len() <= INLINE_BYTES {
            return convert(endpoint, body::parse(&bytes)?);
        }
        let seat = long_bodies
            .seat(tenant, bytes.len(), deadline, "the body was read")
            .await?;
        let decoding = tokio::task::spawn_blocking(move || {
            // Both are held until it ends, also when the caller has gone.
            let _held = (share, seat);
            convert(endpoint, body::parse(&bytes)?)
        });
        let panicked = |_| RequestError::new(ErrorKind::Internal, "reading the body failed");
        decoding.await.map_err(panicked)?
    }
}

/// A choice as it grows.
#[derive(Debug, Default)]
struct Grown {
    text: String,
    token_ids: Vec<u32>,
    logprobs: Vec<v1::TokenLogprob>,
    finished: v1::Finished,
}

async fn whole_answer(mut running: Running, api: &ApiRequest) -> Result<Response, HttpError> {
    let mut grown: Vec<Grown> = Vec::new();
    grown.resize_with(api.num_choices as usize, Grown::default);
    while let Some(happened) = running.next().await? {
        match happened {
            Happened::Delta(index, delta) => {
                if let Some(choice) = grown.get_mut(index as usize) {
                    choice.text.push_str(&delta.text);
                    choice.token_ids.extend_from_slice(&delta.token_ids);
                    choice.logprobs.extend(delta.logprobs);
                }
            }
            Happened::Finished(index, finished) => {
                if let Some(choice) = grown.get_mut(index as usize) {
                    choice.finished = finished;
                }
            }
        }
    }
    let choices: Vec<_> = grown
        .iter()
        .zip(0_u32..)
        .map(|(choice, index)| Choice {
            index,
            message: (api.endpoint == Endpoint::Chat).then(|| Message::new(&choice.text)),
            text: (api.endpoint == Endpoint::Completions).then_some(&choice.text),
            finish_reason: Some(finish_reason(&choice.finished)),
            stop_reason: Stop::of(&choice.finished),
            token_ids: api.extras.return_token_ids.then_some(&choice.token_ids[..]),
            logprobs: api.extras.logprobs.then(|| {
                let shows_special = api.extras.shows_special;
                Logprobs::new(api.endpoint, &choice.logprobs, shows_special, &mut 0)
            }),
            prompt_logprobs: PromptLogprobs::new(&choice.finished.prompt_logprobs),
            ..Choice::default()
        })
        .collect();
    let totals = &running.totals;
    let answer = Answer::whole(&running.identity, &choices, totals.usage(), totals.report());
    Ok(axum::Json(answer).into_response())
}

/// Names of fields without effect, comma-separated; names that are no plain text are left out.
fn ignored_header(names: &[String]) -> Option<HeaderValue> {
    let plain = |name: &&String| {
        name.bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b',')
    };
    let mut value = String::new();
    for name in names.iter().filter(plain) {
        if value.len() + name.len() > IGNORED_BYTES {
            break;
        }
        if !value.is_empty() {
            value.push_str(", ");
        }
        value.push_str(name);
    }
    if value.is_empty() {
        return None;
    }
    HeaderValue::from_str(&value).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::access::Bodies;

    fn body(tenant: &str, num_bytes: usize, deadline: Instant) -> Body<'_> {
        let bodies = Bodies::new(1 << 20, Duration::from_secs(1));
        let text = format!("{{\"prompt\": \"{}\"}}", "x".repeat(num_bytes));
        Body {
            bytes: text.into(),
            share: bodies.begin(None, Some(tenant), 1).unwrap(),
            tenant: Some(tenant),
            deadline,
        }
    }

    fn later() -> Instant {
        now() + Duration::from_secs(600)
    }

    #[tokio::test]
    async fn long_body_comes_before_those_of_a_tenant_that_had_a_turn_and_a_short_one_at_once() {
        let turns = Turns::new(1);
        let busy = turns.seat(Some("ann"), 1 << 20, later(), "").await;
        let mut next_of_ann = Box::pin(turns.seat(Some("ann"), 1, later(), ""));
        assert!(futures_util::poll!(&mut next_of_ann).is_pending());
        let long = body("bob", 2 * INLINE_BYTES, later());
        let mut long = Box::pin(long.decode(Endpoint::Completions, &turns));
        assert!(futures_util::poll!(&mut long).is_pending());
        let short = body("bob", 10, now());
        assert!(short.decode(Endpoint::Completions, &turns).await.is_ok());
        drop(busy);
        assert!(futures_util::poll!(&mut next_of_ann).is_pending());
        assert_eq!(long.await.unwrap().requests.len(), 1);
        assert!(next_of_ann.await.is_ok());
    }

    #[tokio::test]
    async fn long_body_waits_no_longer_than_its_deadline() {
        let turns = Turns::new(1);
        let _busy = turns.seat(None, 1, later(), "").await;
        let late = body("bob", 2 * INLINE_BYTES, now());
        let error = late.decode(Endpoint::Completions, &turns).await;
        let error = error.unwrap_err();
        assert_eq!(error.status, 504);
        let begin = "the deadline passed before the body was read";
        assert!(error.message.starts_with(begin), "{}", error.message);
    }
}
