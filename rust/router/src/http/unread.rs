//! What a client sends that no handler read, as where there is no such path, or no key.
//!
//! HTTP/1.1 has one request behind the other, so the next one can only be read once this one's body
//! was. Of a small body the rest is read and dropped; of any other the answer says that the connection
//! closes, or its client would send its next request into the end.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::header::{CONNECTION, EXPECT};
use http::{HeaderValue, Version};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Frame, SizeHint};

use crate::sync::lock;

/// The largest body of which the rest is read.
const MAX_BYTES: u64 = 64 << 10;
/// How long it may take to come.
const MAX_TIME: Duration = Duration::from_millis(500);

/// Reads what the handler left of the request's body, or has the answer close the connection.
pub(super) async fn read_rest(request: Request, next: Next) -> Response {
    if request.version() > Version::HTTP_11 || request.body().is_end_stream() {
        return next.run(request).await;
    }
    // Such a client waits for the answer before it sends anything.
    let is_awaited = request.headers().contains_key(EXPECT);
    let (parts, body) = request.into_parts();
    let left = Arc::new(Mutex::new(Left {
        body,
        is_read: false,
    }));
    let body = Body::new(Shared(left.clone()));
    let mut response = next.run(Request::from_parts(parts, body)).await;
    let is_read = lock(&left).is_read;
    let is_closing = is_read || response.headers().contains_key(CONNECTION);
    if !is_closing && (is_awaited || !discard(Shared(left)).await) {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    response
}

/// Reads the rest of a body; whether it was small, and came in time.
async fn discard(mut body: Shared) -> bool {
    let reading = async {
        let mut num_bytes = 0;
        while num_bytes + body.size_hint().lower() <= MAX_BYTES {
            match body.frame().await {
                None => return true,
                Some(Err(_)) => return false,
                Some(Ok(frame)) => num_bytes += frame.data_ref().map_or(0, Bytes::len) as u64,
            }
        }
        false
    };
    tokio::time::timeout(MAX_TIME, reading).await == Ok(true)
}

/// A request's body, which its handler may leave.
#[derive(Debug)]
struct Left {
    body: Body,
    /// Whether it was read to its end.
    is_read: bool,
}

/// Such a body, for one after the other who reads it.
#[derive(Debug)]
struct Shared(Arc<Mutex<Left>>);

impl hyper::body::Body for Shared {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let mut left = lock(&self.0);
        let frame = Pin::new(&mut left.body).poll_frame(context);
        left.is_read |= matches!(frame, Poll::Ready(None)) || left.body.is_end_stream();
        frame
    }

    fn is_end_stream(&self) -> bool {
        lock(&self.0).body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        lock(&self.0).body.size_hint()
    }
}
