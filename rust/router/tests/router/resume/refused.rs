//! Calls for a stream that may not have it, and streams of which no record is left.

use super::*;

#[tokio::test]
async fn wrong_id_token_and_tenant_are_all_answered_alike() {
    let keys = "key-of-ann ann\nkey-of-bob bob\n";
    let router = TestRouter::with_keys(keys).await;
    let _worker = router.worker(FakeWorker::default()).await;
    let mut events = keyed(&router, "key-of-ann").await.unwrap();
    let mut client = Client::default();
    client.read(&mut events, 2).await.unwrap();
    drop(events);
    let good = client.resume();
    let attempt = async |tenant: &str, asked: v1::ResumeStreamRequest| {
        let asked = shown(&format!("key-of-{tenant}"), asked);
        within(router.client().await.resume_stream(asked)).await
    };
    let mut messages = Vec::new();
    for (tenant, id, token) in [
        ("bob", good.request_id.as_str(), good.resume_token.as_str()),
        ("ann", "another", good.resume_token.as_str()),
        ("ann", good.request_id.as_str(), &"0".repeat(32)),
        ("ann", good.request_id.as_str(), "no token"),
        ("bob", "another", ""),
    ] {
        let asked = v1::ResumeStreamRequest {
            request_id: id.into(),
            resume_token: token.into(),
            starting_after: Vec::new(),
        };
        let status = attempt(tenant, asked).await.unwrap_err();
        assert_eq!(status.code(), Code::NotFound);
        messages.push(status.message().to_owned());
    }
    messages.dedup();
    assert_eq!(messages.len(), 1, "{messages:?}");
    let mut events = attempt("ann", good).await.unwrap().into_inner();
    client.read(&mut events, usize::MAX).await.unwrap();
    assert_eq!(client.answer()[&0].text, TEXT);
}

#[tokio::test]
async fn positions_that_the_stream_does_not_have_are_refused_and_its_record_stays() {
    let router = TestRouter::start().await;
    let _worker = router.worker(FakeWorker::default()).await;
    let mut client = Client::default();
    let mut events = begin(&router, request(TEXT)).await;
    client.read(&mut events, 2).await.unwrap();
    drop(events);
    for (index, position) in [(1, 0), (0, 1_000)] {
        let asked = v1::ResumeStreamRequest {
            starting_after: vec![v1::StreamPosition { index, position }],
            ..client.resume()
        };
        let status = resume(&router, asked).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains("starting_after"), "{status}");
    }
    let mut events = resume(&router, client.resume()).await.unwrap();
    client.read(&mut events, usize::MAX).await.unwrap();
    assert_eq!(client.answer()[&0].text, TEXT);
}

#[tokio::test]
async fn nothing_is_kept_without_a_window() {
    let router = TestRouter::with(|config| config.limits.resume_window_s = 0.0).await;
    let _worker = router.worker(FakeWorker::default()).await;
    let client = whole(&router, request(TEXT)).await;
    assert_eq!(client.started[0].resume_token, None);
}

#[tokio::test]
async fn record_goes_when_its_window_is_over() {
    let router = TestRouter::with(|config| config.limits.resume_window_s = 0.001).await;
    let _worker = router.worker(FakeWorker::default()).await;
    let client = whole(&router, request(TEXT)).await;
    let status = within(async {
        loop {
            match resume(&router, client.resume()).await {
                Ok(events) => drop(events),
                Err(status) => return status,
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    assert_eq!(status.code(), Code::NotFound);
}

#[tokio::test]
async fn forgotten_namespace_takes_its_records_along_and_is_not_taught_again() {
    let router = TestRouter::start().await;
    let done = {
        let _worker = router.worker(FakeWorker::default()).await;
        whole(&router, request(TEXT)).await
    };
    no_worker(&router).await;
    let (mut worker, events, mut client) = half(&router).await;
    assert!(next_start(&mut worker).await.learn);
    let forget = v1::ForgetNamespaceRequest {
        name: "default".into(),
        ..Default::default()
    };
    // Whether its worker holds text of it makes no difference here.
    drop(within(router.admin().await.forget_namespace(forget)).await);
    let status = resume(&router, done.resume()).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    // The one that runs goes on, and leaves nothing behind.
    let mut other = router.worker(FakeWorker::default()).await;
    worker.kill();
    let start = next_start(&mut other).await;
    assert!(!start.emitted_token_ids.is_empty() && !start.learn);
    let mut events = events;
    client.read(&mut events, usize::MAX).await.unwrap();
    let status = resume(&router, client.resume()).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    assert_eq!(client.answer()[&0].text, TEXT);
}
