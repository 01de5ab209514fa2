//! Streams of server-sent events that were cut go on where their clients were.

use std::sync::atomic::Ordering;

use crate::support::fake_worker::FakeWorker;
use crate::support::{TestRouter, within};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const TEXT: &str = "abcdefghijklmnopqrstuvwxyz";

/// What a client has of a stream, over all its connections.
#[derive(Debug, Default, PartialEq)]
struct Client {
    id: String,
    token: Option<String>,
    last: Option<String>,
    num_events: usize,
    choices: [Choice; 2],
    sums: Vec<Value>,
    num_done: usize,
}

#[derive(Debug, Default, PartialEq)]
struct Choice {
    num_roles: usize,
    text: String,
    tokens: Vec<Value>,
    offsets: Vec<Value>,
    ends: Vec<Value>,
}

impl Client {
    /// Sends a call and reads up to `count` events of its answer, then cuts the connection.
    async fn call(&mut self, router: &TestRouter, head: &str, body: &str, count: usize) {
        let address = router.bound.http.as_deref().unwrap();
        let mut stream = within(TcpStream::connect(address)).await.unwrap();
        // A client of HTTP/1.0 gets the events as they are, until the connection ends.
        let call = format!(
            "{head} HTTP/1.0\r\nhost: localhost\r\ncontent-type: application/json\r\n{}\
             content-length: {}\r\n\r\n{body}",
            self.headers(),
            body.len()
        );
        within(stream.write_all(call.as_bytes())).await.unwrap();
        let mut text = String::new();
        let mut num_read = 0;
        let mut in_body = false;
        loop {
            if !in_body && let Some((head, rest)) = text.split_once("\r\n\r\n") {
                assert!(head.starts_with("HTTP/1.0 200"), "{text}");
                (text, in_body) = (rest.to_owned(), true);
            }
            while in_body && let Some((event, rest)) = text.split_once("\n\n") {
                if num_read == count {
                    return;
                }
                self.take(event);
                text = rest.to_owned();
                num_read += 1;
            }
            let mut bytes = [0; 4096];
            match within(stream.read(&mut bytes)).await.unwrap() {
                0 => return,
                read => text.push_str(std::str::from_utf8(&bytes[..read]).unwrap()),
            }
        }
    }

    fn headers(&self) -> String {
        let token = self.token.as_ref();
        let token = token.map(|token| format!("x-spectrie-resume-token: {token}\r\n"));
        let last = self.last.as_ref();
        let last = last.map(|last| format!("last-event-id: {last}\r\n"));
        token.unwrap_or_default() + &last.unwrap_or_default()
    }

    async fn resume(&mut self, router: &TestRouter, count: usize) {
        let head = format!("GET /v1/streams/{}", self.id);
        self.call(router, &head, "", count).await;
    }

    fn take(&mut self, event: &str) {
        self.num_events += 1;
        for line in event.lines() {
            if let Some(id) = line.strip_prefix("id: ") {
                self.last = Some(id.into());
            }
        }
        let data = event.lines().find_map(|line| line.strip_prefix("data: "));
        let data = data.unwrap();
        if data == "[DONE]" {
            self.num_done += 1;
            return;
        }
        let chunk: Value = serde_json::from_str(data).unwrap();
        assert!(event.starts_with("id: "), "{event}");
        if let Some(token) = chunk.get("resume_token") {
            assert_eq!(self.token, None);
            self.token = Some(token.as_str().unwrap().into());
            self.id = chunk["id"].as_str().unwrap().into();
        }
        assert_eq!(chunk["id"], self.id.as_str());
        let Some(piece) = chunk["choices"].get(0) else {
            self.sums.push(chunk);
            return;
        };
        let choice = &mut self.choices[piece["index"].as_u64().unwrap() as usize];
        choice.num_roles += usize::from(piece["delta"].get("role").is_some());
        let text = piece.get("text").unwrap_or(&piece["delta"]["content"]);
        choice.text.push_str(text.as_str().unwrap_or_default());
        let logprobs = &piece["logprobs"];
        let entries = |field: &str| logprobs[field].as_array().cloned().unwrap_or_default();
        choice.tokens.extend(entries("tokens"));
        choice.tokens.extend(entries("content"));
        choice.offsets.extend(entries("text_offset"));
        if !piece["finish_reason"].is_null() {
            choice.ends.push(piece["finish_reason"].clone());
        }
    }

    /// The same but for what each stream has of its own.
    fn answer(mut self) -> Self {
        self.token = None;
        self.last = None;
        self.num_events = 0;
        self.id.clear();
        for sums in &mut self.sums {
            *sums = sums["usage"].clone();
        }
        self
    }
}

/// Cuts the stream after each of its events, and once more two events later. The first of these cuts find
/// its choices unfinished, whatever the machine does.
async fn cut_everywhere(path: &str, body: Value) {
    let router = TestRouter::start().await;
    let worker = FakeWorker {
        tokens_per_step: 2,
        freezes_after: Some(6),
        ..FakeWorker::default()
    };
    let is_thawed = worker.is_thawed.clone();
    is_thawed.store(true, Ordering::Relaxed);
    let mut worker = router.worker(worker).await;
    let (head, body) = (format!("POST {path}"), body.to_string());
    let mut expected = Client::default();
    expected.call(&router, &head, &body, usize::MAX).await;
    let num_events = expected.num_events;
    let expected = expected.answer();
    assert_eq!((expected.num_done, expected.sums.len()), (1, 1));
    assert!(num_events > 6, "{num_events}");
    for count in 1..num_events {
        // A stream has as many events as choices, however their tokens come.
        let is_held = count <= 2;
        is_thawed.store(!is_held, Ordering::Relaxed);
        let mut client = Client::default();
        client.call(&router, &head, &body, count).await;
        if is_held {
            let (_, id) = client.id.split_once('-').unwrap();
            let id = id.to_owned();
            worker.is_cut_off(&id).await;
            is_thawed.store(true, Ordering::Relaxed);
            client.resume(&router, 2).await;
            worker.goes_on_with(&id).await;
        } else if client.num_done == 0 {
            client.resume(&router, 2).await;
        }
        if client.num_done == 0 {
            client.resume(&router, usize::MAX).await;
        }
        assert_eq!(client.answer(), expected, "cut after {count} events");
    }
}

#[tokio::test]
async fn chat_that_is_cut_after_any_event_goes_on_with_the_next() {
    let body = json!({
        "messages": [{"role": "user", "content": TEXT}],
        "n": 2,
        "stream": true,
        "stream_options": {"include_usage": true},
        "logprobs": true,
        "top_logprobs": 1,
        "max_tokens": 12,
    });
    cut_everywhere("/v1/chat/completions", body).await;
}

#[tokio::test]
async fn completions_cut_after_any_event_go_on_with_the_next_and_count_their_offsets_on() {
    let body = json!({
        "prompt": TEXT,
        "n": 2,
        "stream": true,
        "stream_options": {"include_usage": true},
        "logprobs": 1,
        "stop": ["opqr", "z!"],
        "max_tokens": 26,
    });
    cut_everywhere("/v1/completions", body).await;
}

async fn status(router: &TestRouter, path: &str, headers: &str) -> (String, String) {
    let address = router.bound.http.as_deref().unwrap();
    let mut stream = within(TcpStream::connect(address)).await.unwrap();
    let call = format!("GET {path} HTTP/1.0\r\nhost: localhost\r\n{headers}\r\n");
    within(stream.write_all(call.as_bytes())).await.unwrap();
    let mut answer = String::new();
    within(stream.read_to_string(&mut answer)).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap();
    (status.to_owned(), body.to_owned())
}

#[tokio::test]
async fn streams_of_others_and_of_no_one_are_not_found_alike() {
    let router = TestRouter::start().await;
    let _worker = router.worker(FakeWorker::default()).await;
    let body = json!({"prompt": TEXT, "stream": true, "max_tokens": 40}).to_string();
    let mut client = Client::default();
    client.call(&router, "POST /v1/completions", &body, 3).await;
    let path = format!("/v1/streams/{}", client.id);
    let token = |token: &str| format!("x-spectrie-resume-token: {token}\r\n");
    let wrong = status(&router, &path, &token(&"0".repeat(32))).await;
    let unknown = status(
        &router,
        "/v1/streams/other",
        &token(client.token.as_ref().unwrap()),
    )
    .await;
    assert_eq!(wrong, unknown);
    assert_eq!(wrong.0, "404");
    assert_eq!(status(&router, &path, "").await.0, "400");
    // What is asked for wrongly by the client itself leaves the stream as it was.
    for last in ["x", "1.2", "-1", "99"] {
        let headers = token(client.token.as_ref().unwrap()) + &format!("last-event-id: {last}\r\n");
        let (status, body) = status(&router, &path, &headers).await;
        assert_eq!(status, "400", "{last}: {body}");
        assert!(
            body.contains("\"param\":\"last-event-id\""),
            "{last}: {body}"
        );
    }
    client.resume(&router, usize::MAX).await;
    assert_eq!(client.choices[0].text, TEXT);
    assert_eq!(client.num_done, 1);
    // All that it has: only the end comes.
    let last = client.last.clone();
    client.resume(&router, usize::MAX).await;
    assert_eq!((client.num_done, &client.last), (2, &last));
    assert_eq!(client.choices[0].text, TEXT);
    let metrics = crate::support::get(router.bound.http.as_deref().unwrap(), "/metrics").await;
    assert!(metrics.contains("route=\"/v1/streams\""), "{metrics}");
}

#[tokio::test]
async fn several_prompts_have_no_ids() {
    let router = TestRouter::start().await;
    let _worker = router.worker(FakeWorker::default()).await;
    let body = json!({"prompt": ["ab", "cd"], "stream": true}).to_string();
    let address = router.bound.http.as_deref().unwrap();
    let mut stream = within(TcpStream::connect(address)).await.unwrap();
    let call = format!(
        "POST /v1/completions HTTP/1.0\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    within(stream.write_all(call.as_bytes())).await.unwrap();
    let mut answer = String::new();
    within(stream.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.contains("[DONE]"), "{answer}");
    assert!(
        !answer.contains("\nid: ") && !answer.contains("resume_token"),
        "{answer}"
    );
}
