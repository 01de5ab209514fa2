//! Streams that were cut go on where their clients were, over gRPC.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::fake_worker::{END_TOKEN, FakeWorker};
use crate::support::{Message, TestRouter, TestWorker, get, request, within};
use sha2::Digest as _;
use spectrie_proto::v1;
use spectrie_proto::worker_v1::Start;
use spectrie_router::RouterConfig;
use tonic::{Code, Request, Status};

mod back;
mod client;
mod elsewhere;
mod ended;
mod mortal;
mod refused;
use client::{Client, Events};

const TEXT: &str = "abcdefghijklmnopqrstuvwxyz";

async fn begin(router: &TestRouter, asked: v1::GenerateRequest) -> Events {
    let stream = within(router.client().await.generate_stream(asked)).await;
    stream.unwrap().into_inner()
}

/// A call that shows a key.
fn shown<T>(key: &str, asked: T) -> Request<T> {
    let mut asked = Request::new(asked);
    let key = format!("Bearer {key}").parse().unwrap();
    asked.metadata_mut().insert("authorization", key);
    asked
}

async fn keyed(router: &TestRouter, key: &str) -> Result<Events, Status> {
    let asked = shown(key, request(TEXT));
    let stream = within(router.client().await.generate_stream(asked)).await?;
    Ok(stream.into_inner())
}

async fn resume(router: &TestRouter, asked: v1::ResumeStreamRequest) -> Result<Events, Status> {
    let stream = within(router.client().await.resume_stream(asked)).await?;
    Ok(stream.into_inner())
}

/// Two choices with log-probabilities and sources, of which the text `stop` ends each.
fn rich(stop: &[&str]) -> v1::GenerateRequest {
    v1::GenerateRequest {
        sampling: Some(v1::Sampling {
            seed: Some(7),
            n: Some(2),
            ..Default::default()
        }),
        stopping: Some(v1::Stopping {
            stop: stop.iter().map(ToString::to_string).collect(),
            ..Default::default()
        }),
        output: Some(v1::Output {
            logprobs: Some(1),
            prompt_logprobs: Some(0),
            sources: Some(true),
            ..Default::default()
        }),
        ..request(TEXT)
    }
}

fn slow() -> FakeWorker {
    FakeWorker {
        tokens_per_step: 2,
        freezes_after: Some(6),
        ..FakeWorker::default()
    }
}

/// The whole answer, undisturbed, and how many events brought it.
async fn whole(router: &TestRouter, asked: v1::GenerateRequest) -> Client {
    let mut client = Client::default();
    let mut events = begin(router, asked).await;
    assert!(!client.read(&mut events, usize::MAX).await.unwrap());
    client
}

/// Cuts the stream after each of its events, and once more two events later. The first of these cuts find
/// its choices unfinished, whatever the machine does.
async fn cut_everywhere(asked: v1::GenerateRequest) {
    let router = TestRouter::start().await;
    let slow = slow();
    let is_thawed = slow.is_thawed.clone();
    is_thawed.store(true, Ordering::Relaxed);
    let mut worker = router.worker(slow).await;
    let expected = whole(&router, asked.clone()).await;
    let num_events = expected.num_events;
    let expected = expected.answer();
    assert!(num_events > 4, "{num_events}");
    for count in 1..=num_events {
        // A stream has its first event and another one, however its tokens come.
        let is_held = count <= 2;
        is_thawed.store(!is_held, Ordering::Relaxed);
        let mut client = Client::default();
        let mut events = begin(&router, asked.clone()).await;
        client.read(&mut events, count).await.unwrap();
        drop(events);
        let id = &client.started[0].request_id.clone();
        if is_held {
            worker.is_cut_off(id).await;
            is_thawed.store(true, Ordering::Relaxed);
        }
        let mut events = resume(&router, client.resume()).await.unwrap();
        if is_held {
            let emitted = worker.goes_on_with(id).await;
            assert!(count == 1 || emitted.iter().any(|tokens| !tokens.is_empty()));
        }
        client.read(&mut events, 2).await.unwrap();
        drop(events);
        let mut events = resume(&router, client.resume()).await.unwrap();
        client.read(&mut events, usize::MAX).await.unwrap();
        assert_eq!(client.answer(), expected, "cut after {count} events");
    }
}

#[tokio::test]
async fn stream_cut_after_any_event_goes_on_with_the_next() {
    cut_everywhere(rich(&[])).await;
}

#[tokio::test]
async fn stop_text_across_the_cut_ends_the_answer_where_it_would() {
    // Text that may begin the stop is held back, so tokens are sent ahead of it.
    cut_everywhere(rich(&["klmnop", "yz!"])).await;
}

#[tokio::test]
async fn answer_cut_at_its_most_tokens_keeps_the_text_that_was_held_back() {
    let mut asked = rich(&["xyz!"]);
    asked.stopping.as_mut().unwrap().max_tokens = Some(25);
    cut_everywhere(asked).await;
}

/// A stream with a few tokens of a worker that stops there, and that worker.
async fn half(router: &TestRouter) -> (TestWorker, Events, Client) {
    let worker = FakeWorker {
        freezes_after: Some(6),
        ..FakeWorker::default()
    };
    let worker = router.worker(worker).await;
    let mut events = begin(router, request(TEXT)).await;
    let mut client = Client::default();
    while client.choices.is_empty() {
        client.read(&mut events, 1).await.unwrap();
    }
    (worker, events, client)
}

async fn no_worker(router: &TestRouter) {
    within(async { while router.num_workers("fake").await > 0 {} }).await;
}

/// A client whose stream was cut after a few tokens, and whose worker is gone.
async fn cut_and_left(router: &TestRouter) -> Client {
    let (worker, events, client) = half(router).await;
    drop(events);
    drop(worker);
    no_worker(router).await;
    client
}

/// Asserts that the stream waits for a worker, and is whole behind it.
async fn goes_on(router: &TestRouter, mut client: Client) {
    let mut events = resume(router, client.resume()).await.unwrap();
    let _worker = router.worker(FakeWorker::default()).await;
    client.read(&mut events, usize::MAX).await.unwrap();
    assert_eq!(client.answer()[&0].text, TEXT);
}

#[tokio::test]
async fn stream_that_may_not_go_on_at_another_connection_stays_at_its_own() {
    let keys = "key-of-ann ann\nkey-of-bob bob\n";
    let change = |config: &mut RouterConfig| config.limits.max_queued = Some(2);
    let router = TestRouter::keyed(keys, change).await;
    let worker = slow();
    let is_thawed = worker.is_thawed.clone();
    let worker = FakeWorker {
        max_running: 2,
        ..worker
    };
    let _worker = router.worker(worker).await;
    // Alone, ann may have all four; beside bob two, and has as many at another stream.
    let asked = || shown("key-of-ann", rich(&[]));
    let mut streams = Vec::new();
    for _ in 0..2 {
        let stream = within(router.client().await.generate_stream(asked())).await;
        streams.push(stream.unwrap().into_inner());
    }
    let mut client = Client::default();
    client.read(&mut streams[0], 2).await.unwrap();
    let _of_bob = keyed(&router, "key-of-bob").await.unwrap();
    let again = shown("key-of-ann", client.resume());
    let status = within(router.client().await.resume_stream(again)).await;
    let status = status.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    is_thawed.store(true, Ordering::Relaxed);
    client.read(&mut streams[0], usize::MAX).await.unwrap();
    assert_eq!(client.answer()[&1].text, TEXT);
}

async fn next_start(worker: &mut TestWorker) -> Start {
    loop {
        if let Message::Start(start) = worker.hear().await {
            return start;
        }
    }
}

#[tokio::test]
async fn connection_that_hangs_ends_when_its_client_goes_on_at_another() {
    let router = TestRouter::start().await;
    let (mut frozen, mut hanging, mut client) = half(&router).await;
    let first = next_start(&mut frozen).await;
    let other = router.worker(FakeWorker::default()).await;
    let mut events = resume(&router, client.resume()).await.unwrap();
    let mut rest = Client::default();
    let status = rest.read(&mut hanging, usize::MAX).await.unwrap_err();
    assert_eq!(status.code(), Code::Cancelled);
    assert!(status.message().contains("another connection"), "{status}");
    mortal::wait_for(&router, "spectrie_aborted_total{cause=\"moved\"}", 1).await;
    // Its answer goes on at the other worker, and what came meanwhile is not lost.
    drop(frozen);
    client.read(&mut events, usize::MAX).await.unwrap();
    let choice = &client.answer()[&0];
    assert_eq!(choice.text, TEXT);
    assert_eq!(choice.token_ids.last(), Some(&END_TOKEN));
    assert_eq!(choice.finished[0].usage.unwrap().completion_tokens, 27);
    assert!(first.emitted_token_ids.is_empty());
    drop(other);
}

#[tokio::test]
async fn cut_stream_is_cancelled_at_its_worker_and_resumed_behind_its_tokens() {
    let router = TestRouter::start().await;
    let (mut worker, events, client) = half(&router).await;
    let first = next_start(&mut worker).await;
    drop(events);
    let Message::Cancel(cancel) = worker.hear().await else {
        panic!("no cancel")
    };
    assert_eq!(
        (cancel.request_id, cancel.attempt),
        (first.request_id.clone(), 0)
    );
    let _events = resume(&router, client.resume()).await.unwrap();
    let second = next_start(&mut worker).await;
    assert_eq!((second.request_id, second.attempt), (first.request_id, 1));
    let tokens: Vec<u32> = TEXT.bytes().map(u32::from).collect();
    let emitted = &second.emitted_token_ids;
    assert!(emitted.starts_with(&client.choices[&0].token_ids) && tokens.starts_with(emitted));
    assert_eq!(second.choice_seed, first.choice_seed);
    // Two clocks are read each time, one behind the other.
    let late_ms = second.deadline_ms.unwrap() - first.deadline_ms.unwrap();
    assert!((0..1_000).contains(&late_ms), "{late_ms}");
}

#[tokio::test]
async fn resumed_stream_waits_for_its_worker_as_one_that_lost_it() {
    let router = TestRouter::start().await;
    let client = cut_and_left(&router).await;
    goes_on(&router, client).await;
}

#[tokio::test]
async fn call_whose_time_is_over_leaves_its_stream_to_the_next_one() {
    let router = TestRouter::start().await;
    let mut client = cut_and_left(&router).await;
    let mut asked = Request::new(client.resume());
    asked.set_timeout(Duration::from_millis(300));
    let short = within(router.client().await.resume_stream(asked)).await;
    let status = match short {
        Ok(events) => {
            let rest = client.read(&mut events.into_inner(), usize::MAX).await;
            rest.unwrap_err()
        }
        Err(status) => status,
    };
    // The client's own clock may be first to say so.
    let over = [Code::DeadlineExceeded, Code::Cancelled];
    assert!(over.contains(&status.code()), "{status}");
    goes_on(&router, client).await;
}

#[tokio::test]
async fn finished_stream_is_replayed_from_its_record_without_a_worker() {
    let router = TestRouter::start().await;
    let mut worker = router.worker(FakeWorker::default()).await;
    let expected = whole(&router, request(TEXT)).await;
    next_start(&mut worker).await;
    drop(worker);
    no_worker(&router).await;
    for _ in 0..2 {
        let asked = v1::ResumeStreamRequest {
            starting_after: Vec::new(),
            ..expected.resume()
        };
        let mut client = Client {
            started: expected.started.clone(),
            ..Client::default()
        };
        let mut events = resume(&router, asked).await.unwrap();
        client.read(&mut events, usize::MAX).await.unwrap();
        assert_eq!(client.answer(), expected.clone().answer());
    }
}

#[tokio::test]
async fn limits_of_a_key_count_a_resumed_stream_once() {
    // Two requests a minute, and one token more than the first has in prompt and answer.
    let digest = sha2::Sha256::digest("key-of-ann");
    let router = TestRouter::with_keys(&format!(
        "[[keys]]\nsha256 = \"{digest:x}\"\ntenant = \"ann\"\nrequests_per_minute = 2\n\
         tokens_per_minute = 54\n"
    ))
    .await
    .shown("key-of-ann");
    let _worker = router.worker(FakeWorker::default()).await;
    let mut events = keyed(&router, "key-of-ann").await.unwrap();
    let mut client = Client::default();
    client.read(&mut events, 2).await.unwrap();
    for _ in 0..4 {
        drop(events);
        let again = shown("key-of-ann", client.resume());
        let resumed = within(router.client().await.resume_stream(again)).await;
        events = resumed.unwrap().into_inner();
        client.read(&mut events, 1).await.unwrap();
    }
    client.read(&mut events, usize::MAX).await.unwrap();
    assert_eq!(client.answer()[&0].text, TEXT);
    keyed(&router, "key-of-ann").await.unwrap();
    let status = keyed(&router, "key-of-ann").await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn stream_resumed_while_it_is_being_cut_is_never_refused() {
    let router = TestRouter::start().await;
    let _worker = router.worker(FakeWorker::default()).await;
    for _ in 0..60 {
        let mut client = Client::default();
        let mut events = begin(&router, request(TEXT)).await;
        client.read(&mut events, 2).await.unwrap();
        let mut other = router.client().await;
        let asked = client.resume();
        let cut = tokio::spawn(async move { drop(events) });
        let resumed = within(other.resume_stream(asked)).await;
        let mut events = resumed.unwrap().into_inner();
        cut.await.unwrap();
        client.read(&mut events, usize::MAX).await.unwrap();
        assert_eq!(client.answer()[&0].text, TEXT);
    }
}

#[tokio::test]
async fn stream_that_goes_on_again_and_again_counts_as_requests() {
    let digest = sha2::Sha256::digest("key-of-ann");
    let router = TestRouter::with_keys(&format!(
        "[[keys]]\nsha256 = \"{digest:x}\"\ntenant = \"ann\"\nrequests_per_minute = 1\n"
    ))
    .await
    .shown("key-of-ann");
    let _worker = router.worker(FakeWorker::default()).await;
    let mut events = keyed(&router, "key-of-ann").await.unwrap();
    let mut client = Client::default();
    client.read(&mut events, 2).await.unwrap();
    let mut num_resumes = 0;
    let status = loop {
        drop(events);
        let again = shown("key-of-ann", client.resume());
        match within(router.client().await.resume_stream(again)).await {
            Ok(resumed) => events = resumed.into_inner(),
            Err(status) => break status,
        }
        client.read(&mut events, 1).await.unwrap();
        num_resumes += 1;
        assert!(num_resumes < 20);
    };
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(num_resumes, 4);
}

#[tokio::test]
async fn metrics_count_each_token_of_a_resumed_stream_once() {
    let router = TestRouter::start().await;
    let _worker = router.worker(FakeWorker::default()).await;
    let mut client = Client::default();
    let mut events = begin(&router, request(TEXT)).await;
    client.read(&mut events, 2).await.unwrap();
    for _ in 0..4 {
        drop(events);
        events = resume(&router, client.resume()).await.unwrap();
        client.read(&mut events, 1).await.unwrap();
    }
    client.read(&mut events, usize::MAX).await.unwrap();
    let text = get(router.bound.http.as_deref().unwrap(), "/metrics").await;
    for line in [
        "spectrie_generated_tokens_total{model=\"fake\"} 27",
        "spectrie_prompt_tokens_total{model=\"fake\"} 26",
        "spectrie_e2e_seconds_count{model=\"fake\"} 1",
        "spectrie_ttft_seconds_count{model=\"fake\"} 1",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}
