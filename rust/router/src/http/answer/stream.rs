//! The response that streams an answer.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt as _, stream};
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};

use super::events::{Happened, Running};
use super::sse::{Encoder, KEEP_ALIVE};

/// How long a stream may be silent before a comment keeps its connection alive.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(15);

/// Sends what happens to `running`, as `encoder` writes it.
pub(crate) fn stream_answer(running: Running, encoder: Encoder) -> Response {
    let chunks = stream::unfold(Some((running, encoder)), next_chunk);
    let mut response = Response::new(Body::from_stream(chunks));
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream; charset=utf-8"),
    );
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // nginx holds back streams without this.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

type Streaming = Option<(Running, Encoder)>;

/// The next bytes of a stream: all events that are ready, or a comment after a long silence.
async fn next_chunk(state: Streaming) -> Option<(Result<Bytes, Infallible>, Streaming)> {
    let (mut running, mut encoder) = state?;
    let mut out = BytesMut::new();
    while out.is_empty() {
        let Ok(happened) = tokio::time::timeout(KEEP_ALIVE_EVERY, running.next()).await else {
            let comment = Bytes::from_static(KEEP_ALIVE);
            return Some((Ok(comment), Some((running, encoder))));
        };
        let mut ready = Some(happened);
        while let Some(happened) = ready {
            match happened {
                Ok(Some(Happened::Delta(index, delta))) => {
                    out.extend_from_slice(&encoder.delta(index, &delta));
                }
                Ok(Some(Happened::Finished(index, finished))) => {
                    out.extend_from_slice(&encoder.finished(index, &finished));
                }
                Ok(None) => {
                    out.extend_from_slice(&encoder.done(&running.totals));
                    return Some((Ok(out.freeze()), None));
                }
                Err(error) => {
                    out.extend_from_slice(&Encoder::error(&error));
                    return Some((Ok(out.freeze()), None));
                }
            }
            ready = running.next().now_or_never();
        }
    }
    Some((Ok(out.freeze()), Some((running, encoder))))
}
