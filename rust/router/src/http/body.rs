//! Reading a request body: its type, its size, its time, its JSON.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT};
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::Value;

use super::error::HttpError;
use crate::access::{Bodies, BodyShare};
use crate::listen::{Kept, Place};

/// How much of a body that is too large is read and dropped, as a multiple of the limit. A client
/// that is still sending when the connection closes sees a broken pipe instead of the answer.
const DISCARDED_LIMITS: usize = 16;
/// Most that is reserved for a body before its bytes arrive, and count.
const RESERVED_BYTES: usize = 64 << 10;

/// Reads a body of at most `limit` bytes that says it is JSON, with its `tenant`'s share of `bodies`, to be
/// held as long as the bytes are.
///
/// # Errors
/// Another content type or encoding, too many bytes (413), too slow (408), too much at once (429).
pub(super) async fn read(
    request: Request,
    limit: usize,
    bodies: &Bodies,
    tenant: Option<&str>,
) -> Result<(Bytes, BodyShare), HttpError> {
    check_headers(request.headers())?;
    if let Some(length) = content_length(request.headers())
        && length > limit
        && request.headers().contains_key(EXPECT)
    {
        return Err(too_large(Some(length), limit));
    }
    let length = content_length(request.headers());
    let place = request.extensions().get::<Place>();
    let share = bodies.begin(place.map(|place| place.bodies(Kept::Keyed)), tenant, limit)?;
    let reading = read_bytes(request.into_body(), length, limit, share);
    let bytes = tokio::time::timeout(bodies.timeout(), reading).await;
    bytes.map_err(|_| too_slow(bodies.timeout()))?
}

/// A page in a browser can send any text to a server on this machine without asking, but not this
/// content type.
fn check_headers(headers: &HeaderMap) -> Result<(), HttpError> {
    let text = |name| {
        let value = headers.get(name);
        value.map(|value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()))
    };
    let content_type = text(CONTENT_TYPE).unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or("").trim();
    if !essence.eq_ignore_ascii_case("application/json") {
        return Err(HttpError::invalid(
            "content-type",
            format!("content-type: given {essence:?}; allowed: \"application/json\""),
        ));
    }
    match text(CONTENT_ENCODING).as_deref() {
        None | Some("identity") => Ok(()),
        Some(other) => Err(HttpError::unsupported(
            "content-encoding",
            format!("content-encoding: given {other:?}, bodies are read uncompressed"),
        )),
    }
}

fn content_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

async fn read_bytes(
    mut body: Body,
    length: Option<usize>,
    limit: usize,
    mut share: BodyShare,
) -> Result<(Bytes, BodyShare), HttpError> {
    let mut bytes = BytesMut::with_capacity(length.unwrap_or(0).min(limit).min(RESERVED_BYTES));
    let mut received = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| HttpError {
            param: None,
            ..HttpError::invalid("", "body: the connection broke before its end")
        })?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        received += data.len();
        if received <= limit {
            share.add(data.len())?;
            bytes.extend_from_slice(&data);
        } else if received > limit.saturating_mul(DISCARDED_LIMITS) {
            break;
        }
    }
    if received > limit {
        return Err(too_large(length, limit));
    }
    Ok((bytes.freeze(), share))
}

fn too_large(length: Option<usize>, limit: usize) -> HttpError {
    let given = length.map_or_else(
        || format!("more than {limit} bytes"),
        |length| format!("{length} bytes"),
    );
    HttpError::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "invalid_request_error",
        Some("request_too_large"),
        None,
        format!("body: given {given}; allowed: up to {limit} bytes"),
    )
}

fn too_slow(limit: Duration) -> HttpError {
    let seconds = limit.as_secs_f64();
    HttpError::new(
        StatusCode::REQUEST_TIMEOUT,
        "timeout_error",
        Some("body_timeout"),
        None,
        format!("body: not complete after {seconds} seconds"),
    )
}

/// Parses a body.
///
/// # Errors
/// Bytes that are no JSON, with line and column.
pub(super) fn parse(bytes: &[u8]) -> Result<Value, HttpError> {
    let refuse = |message: String| HttpError {
        param: None,
        ..HttpError::invalid("", message)
    };
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(refuse("body: empty, expected a JSON object".to_owned()));
    }
    serde_json::from_slice(bytes).map_err(|error| {
        let hint = not_a_number(bytes, error.line(), error.column());
        refuse(format!("body: not valid JSON: {error}{hint}"))
    })
}

/// A word on the commonest mistake of programs: NaN and infinities, which JSON does not have.
fn not_a_number(bytes: &[u8], line: usize, column: usize) -> &'static str {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let line = lines.nth(line.saturating_sub(1)).unwrap_or_default();
    // The parser stops at or just after the first letter.
    let start = column.saturating_sub(2).min(line.len());
    let near = &line[start..line.len().min(start + 4)];
    let found = |word: &[u8]| near.windows(word.len()).any(|window| window == word);
    if found(b"NaN") || found(b"Inf") {
        "; numbers must be finite: NaN and Infinity are not JSON"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_error_says_line_and_column() {
        let error = parse(b"{\"model\": \"m\",\n  \"n\": }").unwrap_err();
        assert_eq!(error.status, 400);
        assert_eq!(error.param, None);
        assert_eq!(
            error.message,
            "body: not valid JSON: expected value at line 2 column 8"
        );
    }

    #[test]
    fn nan_and_infinity_are_named() {
        for number in ["NaN", "Infinity", "-Infinity"] {
            let body = format!("{{\"temperature\": {number}}}");
            let message = parse(body.as_bytes()).unwrap_err().message;
            assert!(message.contains("numbers must be finite"), "{message}");
        }
    }

    #[test]
    fn empty_and_truncated_bodies_are_refused() {
        assert_eq!(
            parse(b" \n").unwrap_err().message,
            "body: empty, expected a JSON object"
        );
        let message = parse(b"{\"a\": 1").unwrap_err().message;
        assert!(message.contains("EOF while parsing"), "{message}");
    }

    #[test]
    fn last_of_two_equal_fields_counts() {
        assert_eq!(
            parse(b"{\"n\": 1, \"n\": 2}").unwrap(),
            serde_json::json!({"n": 2})
        );
    }

    #[test]
    fn deep_nesting_is_refused_and_does_not_overflow() {
        let body = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let message = parse(body.as_bytes()).unwrap_err().message;
        assert!(message.contains("recursion limit"), "{message}");
    }

    /// Why a request is refused whose body may have ten bytes.
    async fn refusal(request: Request) -> HttpError {
        let bodies = Bodies::new(1 << 20, Duration::from_secs(1));
        read(request, 10, &bodies, None).await.unwrap_err()
    }

    #[tokio::test]
    async fn body_over_the_limit_is_413_with_both_sizes() {
        let request = Request::post("/")
            .header(CONTENT_TYPE, "application/json")
            .header(CONTENT_LENGTH, "20")
            .body(Body::from(vec![b' '; 20]))
            .unwrap();
        let error = refusal(request).await;
        assert_eq!(error.status, 413);
        assert_eq!(error.code, Some("request_too_large"));
        assert_eq!(
            error.message,
            "body: given 20 bytes; allowed: up to 10 bytes"
        );
    }

    #[tokio::test]
    async fn other_content_types_and_encodings_are_refused() {
        let request = Request::post("/")
            .header(CONTENT_TYPE, "text/plain; charset=utf-8")
            .body(Body::from("{}"))
            .unwrap();
        let error = refusal(request).await;
        assert_eq!(error.param.as_deref(), Some("content-type"));
        let request = Request::post("/")
            .header(CONTENT_TYPE, "Application/JSON; charset=utf-8")
            .header(CONTENT_ENCODING, "gzip")
            .body(Body::from("{}"))
            .unwrap();
        let error = refusal(request).await;
        assert_eq!(error.param.as_deref(), Some("content-encoding"));
    }
}
