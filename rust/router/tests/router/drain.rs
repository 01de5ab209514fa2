//! Taking workers out of service, and seeing what each has to do.

use std::time::Duration;

use crate::support::fake_worker::FakeWorker;
use crate::support::{TestRouter, request, within};
use spectrie_proto::v1;
use tokio::task::JoinHandle;
use tokio_stream::StreamExt as _;
use tonic::{Code, Request, Response, Status, Streaming};

/// A request that never ends on its own, but for the context.
fn endless() -> v1::GenerateRequest {
    let mut asked = request("abc");
    asked.stopping = Some(v1::Stopping {
        ignore_eos: Some(true),
        ..Default::default()
    });
    asked
}

/// A worker that takes half a minute for an endless answer.
fn slow() -> FakeWorker {
    FakeWorker {
        step_time: Duration::from_millis(200),
        ..FakeWorker::default()
    }
}

fn drain(worker: &str, grace_ms: Option<u64>) -> v1::DrainRequest {
    v1::DrainRequest {
        worker: worker.into(),
        grace_ms,
    }
}

async fn loads(router: &TestRouter) -> Vec<v1::WorkerLoad> {
    let mut admin = router.admin().await;
    let loads = within(admin.loads(v1::LoadsRequest::default())).await;
    loads.unwrap().into_inner().workers
}

/// An endless stream of the first worker, which is asked to drain and waits for that stream's end.
async fn drained_beside_a_stream(
    router: &TestRouter,
) -> (
    Streaming<v1::GenerateEvent>,
    JoinHandle<Result<Response<v1::DrainResponse>, Status>>,
) {
    let stream = router.client().await.generate_stream(endless()).await;
    let mut stream = stream.unwrap().into_inner();
    within(stream.next()).await.unwrap().unwrap();
    let mut admin = router.admin().await;
    let drained = tokio::spawn(async move { within(admin.drain(drain("w1", None))).await });
    while !loads(router).await[0].is_draining {
        tokio::task::yield_now().await;
    }
    (stream, drained)
}

#[tokio::test]
async fn a_worker_that_drains_gets_no_new_requests_and_ends_once_none_runs() {
    let router = TestRouter::start().await;
    let first = router.worker(slow()).await;
    let stream = router.client().await.generate_stream(endless()).await;
    let mut stream = stream.unwrap().into_inner();
    within(stream.next()).await.unwrap().unwrap();
    let _second = router.worker(FakeWorker::default()).await;
    assert_eq!(loads(&router).await.len(), 2);

    let mut admin = router.admin().await;
    let drained = tokio::spawn(async move { within(admin.drain(drain("w1", None))).await });
    while !loads(&router).await[0].is_draining {
        tokio::task::yield_now().await;
    }
    for _ in 0..4 {
        within(router.client().await.generate(request("ab")))
            .await
            .unwrap();
    }
    let left = loads(&router).await;
    assert!(left[0].is_draining && !left[1].is_draining);
    assert_eq!((left[0].choices, left[1].choices), (1, 0));
    assert_eq!(router.num_workers("fake").await, 2);

    assert!(!drained.is_finished());
    drop(stream);
    let drained = drained.await.unwrap().unwrap().into_inner();
    assert_eq!((drained.worker.as_str(), drained.handed_over), ("w1", 0));
    first.ended().await.unwrap();
    let left = loads(&router).await;
    assert_eq!((left.len(), left[0].worker.as_str()), (1, "w2"));
    assert_eq!((left[0].model.as_str(), left[0].max_running), ("fake", 8));
    assert_eq!(left[0].process_id, i64::from(std::process::id()));
}

#[tokio::test]
async fn new_requests_wait_for_the_successor_of_the_only_worker() {
    let router = TestRouter::with(|config| config.workers.wait_s = 20.0).await;
    let _first = router.worker(slow()).await;
    let (stream, drained) = drained_beside_a_stream(&router).await;
    let mut client = router.client().await;
    let waiting = tokio::spawn(async move { within(client.generate(request("ab"))).await });
    drop(stream);
    drained.await.unwrap().unwrap();
    let _second = router.worker(FakeWorker::default()).await;
    waiting.await.unwrap().unwrap();
}

#[tokio::test]
async fn requests_that_wait_are_not_sent_to_other_weights_under_the_same_name() {
    let router = TestRouter::with(|config| {
        config.workers.wait_s = 20.0;
        config.limits.max_waiting = 1;
    })
    .await;
    let _first = router.worker(slow()).await;
    let (stream, drained) = drained_beside_a_stream(&router).await;
    // One is refused because the other waits, with the ids of the first worker's tokenizer.
    let mut asked = tokio::task::JoinSet::new();
    for _ in 0..2 {
        let mut client = router.client().await;
        asked.spawn(async move { within(client.generate(request("ab"))).await });
    }
    let refused = asked.join_next().await.unwrap().unwrap().unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    drop(stream);
    drained.await.unwrap().unwrap();
    let other = FakeWorker {
        model_hash: "1".repeat(64),
        ..FakeWorker::default()
    };
    let _second = router.worker(other).await;
    let refused = asked.join_next().await.unwrap().unwrap().unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    let again = within(router.client().await.generate(request("ab"))).await;
    assert!(again.is_ok());
}

#[tokio::test]
async fn what_runs_after_the_grace_is_handed_over() {
    let router = TestRouter::start().await;
    let frozen = FakeWorker {
        is_frozen: true,
        ..FakeWorker::default()
    };
    let _worker = router.worker(frozen).await;
    let mut client = router.client().await;
    let asked = tokio::spawn(async move { within(client.generate(request("ab"))).await });
    while loads(&router).await[0].choices == 0 {
        tokio::task::yield_now().await;
    }
    let process = std::process::id().to_string();
    let mut admin = router.admin().await;
    let drained = within(admin.drain(drain(&process, Some(50))))
        .await
        .unwrap();
    assert_eq!(drained.into_inner().handed_over, 1);
    asked.abort();
}

#[tokio::test]
async fn unknown_workers_are_named_and_a_drain_outlives_the_call() {
    let router = TestRouter::start().await;
    let mut admin = router.admin().await;
    let status = within(admin.drain(drain("w7", None))).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    assert_eq!(status.message(), "no worker \"w7\"; there is none");
    let status = within(admin.drain(drain("", None))).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);

    let frozen = FakeWorker {
        is_frozen: true,
        ..FakeWorker::default()
    };
    let _worker = router.worker(frozen).await;
    let mut client = router.client().await;
    let asked = tokio::spawn(async move { within(client.generate(request("ab"))).await });
    while loads(&router).await[0].choices == 0 {
        tokio::task::yield_now().await;
    }
    let status = within(admin.drain(drain("w7", None))).await.unwrap_err();
    assert!(status.message().ends_with("there are: w1"), "{status}");
    let status = within(async {
        loop {
            let mut hurried = Request::new(drain("w1", None));
            hurried.set_timeout(Duration::from_millis(300));
            let status = admin.drain(hurried).await.unwrap_err();
            // The client's own clock may be first to say so.
            if status.code() != Code::Cancelled {
                return status;
            }
        }
    })
    .await;
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert!(
        status
            .message()
            .contains("w1 still drains: it runs 1 completions"),
        "{status}"
    );
    assert!(loads(&router).await[0].is_draining);
    asked.abort();
}

#[tokio::test]
async fn a_worker_has_the_time_of_the_steps_that_it_foresees() {
    let router = TestRouter::with(|config| config.workers.stall_timeout_s = 0.5).await;
    let slow = FakeWorker {
        step_time: Duration::from_millis(1500),
        longest_step_ms: 1500.0,
        ..FakeWorker::default()
    };
    let _worker = router.worker(slow).await;
    let reply = within(router.client().await.generate(request("ab"))).await;
    assert_eq!(reply.unwrap().into_inner().choices.len(), 1);
}
