//! Requests that an operator ends.

use crate::support::fake_worker::FakeWorker;
use crate::support::{Message, TestRouter, get, request, within};
use spectrie_proto::v1;
use spectrie_proto::v1::generate_event::Event;
use tokio_stream::StreamExt as _;
use tonic::{Code, Request, Status, Streaming};

type Events = Streaming<v1::GenerateEvent>;

fn frozen() -> FakeWorker {
    FakeWorker {
        is_frozen: true,
        ..FakeWorker::default()
    }
}

fn named(id: &str) -> v1::GenerateRequest {
    v1::GenerateRequest {
        request_id: Some(id.into()),
        ..request("abcdef")
    }
}

async fn begin(router: &TestRouter, key: Option<&str>, id: &str) -> Events {
    let mut asked = Request::new(named(id));
    if let Some(key) = key {
        let key = format!("Bearer {key}").parse().unwrap();
        asked.metadata_mut().insert("authorization", key);
    }
    let stream = within(router.client().await.generate_stream(asked)).await;
    stream.unwrap().into_inner()
}

async fn abort(router: &TestRouter, tenant: Option<&str>, id: &str) -> Result<u32, Status> {
    let asked = v1::AbortRequest {
        request_id: id.into(),
        tenant: tenant.map(Into::into),
    };
    let aborted = within(router.admin().await.abort(asked)).await?;
    Ok(aborted.into_inner().requests)
}

/// The error that ends a stream.
async fn error(events: &mut Events) -> Status {
    within(async {
        loop {
            if let Err(status) = events.next().await.expect("the stream ended well") {
                return status;
            }
        }
    })
    .await
}

#[tokio::test]
async fn running_request_is_cancelled_and_its_client_hears_why() {
    let router = TestRouter::start().await;
    let mut worker = router.worker(frozen()).await;
    let mut events = begin(&router, None, "job").await;
    let Message::Start(start) = worker.hear().await else {
        panic!("no start")
    };
    assert_eq!(abort(&router, None, "job").await.unwrap(), 1);
    let Message::Cancel(cancel) = worker.hear().await else {
        panic!("no cancel")
    };
    assert_eq!(cancel.request_id, start.request_id);
    let status = error(&mut events).await;
    assert_eq!(status.code(), Code::Cancelled);
    assert!(status.message().contains("operator"), "{status}");
    assert_eq!(
        abort(&router, None, "job").await.unwrap_err().code(),
        Code::NotFound
    );
    let metrics = get(router.bound.http.as_deref().unwrap(), "/metrics").await;
    let counted = "spectrie_aborted_total{cause=\"operator\"} 1\n";
    assert!(metrics.contains(counted), "{metrics}");
}

#[tokio::test]
async fn request_that_waits_for_a_worker_ends_too() {
    let router = TestRouter::with(|config| config.workers.wait_s = 600.0).await;
    // A worker that was there a moment ago is expected back.
    drop(router.worker(frozen()).await);
    within(async { while router.num_workers("fake").await > 0 {} }).await;
    let mut client = router.client().await;
    let waiting = tokio::spawn(async move { client.generate(named("job")).await });
    within(async { while abort(&router, None, "job").await.is_err() {} }).await;
    let status = within(waiting).await.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::Cancelled);
    assert!(status.message().contains("operator"), "{status}");
}

#[tokio::test]
async fn cut_stream_that_was_aborted_cannot_be_resumed() {
    let router = TestRouter::start().await;
    let _worker = router.worker(FakeWorker::default()).await;
    let mut events = begin(&router, None, "job").await;
    let first = within(events.next()).await.unwrap().unwrap().event;
    let Some(Event::Started(started)) = first else {
        panic!("no start")
    };
    while within(events.next()).await.is_some() {}
    let resume = || v1::ResumeStreamRequest {
        request_id: "job".into(),
        resume_token: started.resume_token.clone().unwrap(),
        starting_after: Vec::new(),
    };
    within(router.client().await.resume_stream(resume()))
        .await
        .unwrap();
    within(async { while abort(&router, None, "job").await.is_err() {} }).await;
    let status = within(router.client().await.resume_stream(resume()))
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
}

#[tokio::test]
async fn call_of_several_prompts_ends_though_its_first_is_done() {
    let router = TestRouter::start().await;
    let _worker = router.worker(frozen()).await;
    let mut parts = [
        begin(&router, None, "job-1").await,
        begin(&router, None, "job-3").await,
    ];
    let mut other = begin(&router, None, "job-3x").await;
    assert_eq!(abort(&router, None, "job").await.unwrap(), 2);
    for part in &mut parts {
        assert_eq!(error(part).await.code(), Code::Cancelled);
    }
    assert_eq!(abort(&router, None, "job-3x").await.unwrap(), 1);
    assert_eq!(error(&mut other).await.code(), Code::Cancelled);
}

#[tokio::test]
async fn request_of_several_tenants_is_ended_only_where_one_is_named() {
    let router = TestRouter::with_keys("key-of-ann ann\nkey-of-bob bob\n").await;
    let _worker = router.worker(frozen()).await;
    let mut of_ann = begin(&router, Some("key-of-ann"), "job").await;
    let mut of_bob = begin(&router, Some("key-of-bob"), "job").await;
    let status = abort(&router, None, "job").await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(status.message().ends_with("ann, bob"), "{status}");
    let other = abort(&router, Some("eve"), "job").await.unwrap_err();
    assert_eq!(other.code(), Code::NotFound);
    assert_eq!(abort(&router, Some("bob"), "job").await.unwrap(), 1);
    assert_eq!(error(&mut of_bob).await.code(), Code::Cancelled);
    assert_eq!(abort(&router, None, "chatcmpl-job").await.unwrap(), 1);
    assert_eq!(error(&mut of_ann).await.code(), Code::Cancelled);
}
