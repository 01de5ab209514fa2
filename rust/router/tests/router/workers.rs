//! What happens to requests when workers come, misbehave and go.

use std::time::Duration;

use crate::support::fake_worker::FakeWorker;
use crate::support::{TestRouter, request, within};
use spectrie_proto::v1;
use spectrie_proto::worker_v1::router_message::Message;
use spectrie_router::Ending;
use tokio_stream::StreamExt as _;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

fn reason(status: &Status) -> String {
    status
        .get_error_details()
        .error_info()
        .map(|info| info.reason.clone())
        .unwrap_or_default()
}

async fn refused(router: &TestRouter, request: v1::GenerateRequest) -> Status {
    within(router.client().await.generate(request))
        .await
        .unwrap_err()
}

/// A worker that takes requests and never steps.
fn frozen() -> FakeWorker {
    FakeWorker {
        is_frozen: true,
        ..FakeWorker::default()
    }
}

#[tokio::test]
async fn request_without_tokens_is_retried_on_another_worker() {
    let router = TestRouter::start().await;
    let mut first = router.worker(frozen()).await;
    let mut client = router.client().await;
    let running = tokio::spawn(async move { client.generate(request("abc")).await });
    let Message::Start(start) = first.hear().await else {
        panic!("no start")
    };
    let mut second = router.worker(FakeWorker::default()).await;
    first.kill();
    let response = within(running).await.unwrap().unwrap().into_inner();
    assert_eq!(response.choices[0].text, "abc");
    let Message::Start(again) = second.hear().await else {
        panic!("no start")
    };
    assert_eq!((start.attempt, again.attempt), (0, 1));
    assert_eq!(
        (start.request_id, start.choice_seed),
        (again.request_id, again.choice_seed)
    );
}

#[tokio::test]
async fn prompt_that_can_never_fit_waits_for_no_worker() {
    let router = TestRouter::with(|config| config.workers.wait_s = 600.0).await;
    router.worker(FakeWorker::default()).await.kill();
    within(async {
        while router.num_workers("fake").await > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let status = refused(&router, request(&"x".repeat(4096))).await;
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(reason(&status), "CONTEXT_LENGTH_EXCEEDED");
    let message = "given more than 511 tokens; allowed: 1 to 511";
    assert!(status.message().contains(message), "{status}");
}

#[tokio::test]
async fn request_waits_for_a_worker_that_is_expected_back() {
    let router = TestRouter::with(|config| config.workers.wait_s = 20.0).await;
    router.worker(FakeWorker::default()).await.kill();
    within(async {
        while router.num_workers("fake").await > 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    let mut client = router.client().await;
    let waiting = tokio::spawn(async move { client.generate(request("abc")).await });
    let _worker = router.worker(FakeWorker::default()).await;
    let response = within(waiting).await.unwrap().unwrap().into_inner();
    assert_eq!(response.choices[0].text, "abc");
}

#[tokio::test]
async fn without_worker_the_answer_is_unavailable_with_retry() {
    let router = TestRouter::start().await;
    let status = refused(&router, request("abc")).await;
    assert_eq!(
        (status.code(), reason(&status).as_str()),
        (Code::Unavailable, "UNAVAILABLE")
    );
    assert!(status.get_error_details().retry_info().is_some());
    router.worker(FakeWorker::default()).await.kill();
    let status = refused(&router, request("abc")).await;
    assert_eq!(status.code(), Code::Unavailable);
}

#[tokio::test]
async fn full_queue_is_refused_with_its_limit() {
    let router = TestRouter::with(|config| config.limits.in_flight_factor = 2).await;
    let mut worker = router
        .worker(FakeWorker {
            max_running: 1,
            ..frozen()
        })
        .await;
    let mut streams = Vec::new();
    for _ in 0..2 {
        streams.push(
            within(router.client().await.generate_stream(request("abc")))
                .await
                .unwrap(),
        );
    }
    let status = refused(&router, request("abc")).await;
    assert_eq!(
        (status.code(), reason(&status).as_str()),
        (Code::ResourceExhausted, "QUEUE_FULL")
    );
    assert!(
        status.message().contains("allowed: up to 2"),
        "{}",
        status.message()
    );
    assert!(status.get_error_details().retry_info().is_some());
    drop(streams);
    while !matches!(worker.hear().await, Message::Cancel(_)) {}
    while !matches!(worker.hear().await, Message::Cancel(_)) {}
    let free = within(router.client().await.generate_stream(request("abc"))).await;
    assert!(free.is_ok(), "places of dropped streams are free again");
}

#[tokio::test]
async fn number_of_queued_requests_replaces_the_factor() {
    let router = TestRouter::with(|config| config.limits.max_queued = Some(0)).await;
    let _worker = router
        .worker(FakeWorker {
            max_running: 1,
            ..frozen()
        })
        .await;
    let running = within(router.client().await.generate_stream(request("abc"))).await;
    assert!(running.is_ok());
    let status = refused(&router, request("abc")).await;
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(
        status.message().contains("allowed: up to 1"),
        "{}",
        status.message()
    );
}

#[tokio::test]
async fn deadline_ends_the_request_and_cancels_it() {
    let router = TestRouter::start().await;
    let mut worker = router.worker(frozen()).await;
    let mut asked = tonic::Request::new(request("abc"));
    asked
        .metadata_mut()
        .insert("grpc-timeout", "1S".parse().unwrap());
    // A stream, because the client's own timer ends a call that has no answer yet.
    let stream = within(router.client().await.generate_stream(asked))
        .await
        .unwrap();
    let events: Vec<_> = within(stream.into_inner().collect()).await;
    let status = events.last().unwrap().as_ref().unwrap_err();
    assert_eq!(
        (status.code(), reason(status).as_str()),
        (Code::DeadlineExceeded, "DEADLINE_EXCEEDED")
    );
    while !matches!(worker.hear().await, Message::Cancel(_)) {}
}

#[tokio::test]
async fn bad_output_fails_its_request_alone() {
    let router = TestRouter::start().await;
    let _worker = router
        .worker(FakeWorker {
            bad_token: Some(0),
            ..FakeWorker::default()
        })
        .await;
    let status = refused(&router, request("abc")).await;
    assert_eq!(
        (status.code(), status.message()),
        (Code::Internal, "the worker sent a bad output")
    );
    assert_eq!(router.num_workers("fake").await, 1);
}

#[tokio::test]
async fn refusal_of_a_worker_reaches_the_caller() {
    let router = TestRouter::start().await;
    let refusal = Some("no pages left".to_owned());
    let _worker = router
        .worker(FakeWorker {
            refusal,
            ..FakeWorker::default()
        })
        .await;
    let status = refused(&router, request("abc")).await;
    assert_eq!(
        (status.code(), status.message()),
        (Code::ResourceExhausted, "no pages left")
    );
}

#[tokio::test]
async fn stalled_worker_is_dropped_and_requests_without_tokens_end_when_no_other_comes() {
    let router = TestRouter::with(|config| config.workers.stall_timeout_s = 1.0).await;
    let worker = router.worker(frozen()).await;
    let status = refused(&router, request("abc")).await;
    assert_eq!(
        (status.code(), reason(&status).as_str()),
        (Code::Unavailable, "WORKER_LOST")
    );
    let ended = worker.ended().await.unwrap_err();
    assert!(
        ended.message().contains("with work pending"),
        "{}",
        ended.message()
    );
}

#[tokio::test]
async fn worker_of_another_protocol_is_refused_with_both_numbers() {
    let router = TestRouter::start().await;
    let worker = router.dial(FakeWorker {
        protocol: 7,
        ..FakeWorker::default()
    });
    let status = worker.ended().await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(
        status.message().contains("protocol 7, this router 1"),
        "{}",
        status.message()
    );
}

#[tokio::test]
async fn other_weights_under_the_same_name_are_refused() {
    let router = TestRouter::start().await;
    let _worker = router.worker(FakeWorker::default()).await;
    let other = FakeWorker {
        model_hash: "1".repeat(64),
        ..FakeWorker::default()
    };
    let status = router.dial(other).ended().await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(
        status.message().contains("another served name"),
        "{}",
        status.message()
    );
}

#[tokio::test]
async fn worker_on_tcp_needs_the_token() {
    let folder = std::env::temp_dir().join(format!("spectrie-{:x}", rand::random::<u64>()));
    std::fs::create_dir(&folder).unwrap();
    let file = folder.join("token");
    std::fs::write(&file, "secret\n").unwrap();
    let router = TestRouter::with(|config| {
        config.listen.worker = "127.0.0.1:0".into();
        config.access.worker_token_file = Some(file);
    })
    .await;
    let status = router
        .dial(FakeWorker::default())
        .ended()
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated);
    let worker_token = Some("secret".to_owned());
    router
        .worker(FakeWorker {
            worker_token,
            ..FakeWorker::default()
        })
        .await;
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn requests_go_to_the_least_loaded_worker() {
    let router = TestRouter::start().await;
    let mut first = router.worker(frozen()).await;
    let mut second = router.worker(frozen()).await;
    let mut streams = Vec::new();
    for _ in 0..4 {
        streams.push(
            within(router.client().await.generate_stream(request("abc")))
                .await
                .unwrap(),
        );
    }
    for worker in [&mut first, &mut second] {
        for _ in 0..2 {
            assert!(matches!(worker.hear().await, Message::Start(_)));
        }
    }
}

#[tokio::test]
async fn learnt_text_goes_to_the_other_workers_of_the_model() {
    let router = TestRouter::start().await;
    let mut workers = [
        router.worker(FakeWorker::default()).await,
        router.worker(FakeWorker::default()).await,
    ];
    let mut learns = 0;
    for _ in 0..2 {
        within(router.client().await.generate(request("abc")))
            .await
            .unwrap();
    }
    for worker in &mut workers {
        let learn = loop {
            if let Message::Learn(learn) = worker.hear().await {
                break learn;
            }
        };
        assert_eq!(learn.namespace, "default");
        assert_eq!(learn.token_ids[..3], [97, 98, 99]);
        learns += 1;
    }
    assert_eq!(
        learns, 2,
        "each worker ran one request and heard of the other's"
    );
}

#[tokio::test]
async fn draining_lets_requests_end_and_takes_no_new_ones() {
    let router = TestRouter::start().await;
    let _worker = router
        .worker(FakeWorker {
            step_time: Duration::from_millis(20),
            ..FakeWorker::default()
        })
        .await;
    let mut client = router.client().await;
    let mut late = router.client().await;
    let mut stream = within(client.generate_stream(request("abcdefghijkl")))
        .await
        .unwrap()
        .into_inner();
    assert!(within(stream.next()).await.unwrap().is_ok());
    router.shutdown.request();
    let status = within(late.generate(request("abc"))).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    let rest: Vec<_> = within(stream.collect()).await;
    assert!(rest.iter().all(Result::is_ok));
    drop((client, late));
    assert_eq!(router.ended().await, Ending::Drained);
}

#[tokio::test]
async fn second_request_to_end_cuts_what_runs() {
    let router = TestRouter::start().await;
    let _worker = router.worker(frozen()).await;
    let mut client = router.client().await;
    let stream = within(client.generate_stream(request("abc")))
        .await
        .unwrap();
    router.shutdown.request();
    router.shutdown.request();
    assert_eq!(router.ended().await, Ending::Cut { num_requests: 1 });
    drop(stream);
}
