//! Clients that ask and do not read.

use std::time::Duration;

use crate::support::fake_worker::FakeWorker;
use crate::support::{Message, TestRouter, TestWorker, request, within};
use spectrie_proto::v1;
use spectrie_router::{Ending, RouterConfig};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};
use tokio_stream::StreamExt as _;
use tonic::{Code, Request, Streaming};

/// More tokens than any buffer between router and client holds.
const MANY: u32 = 1 << 26;

/// A router, and a worker whose answers soon fill every buffer.
async fn talkative(change: impl FnOnce(&mut RouterConfig)) -> (TestRouter, TestWorker) {
    let router = TestRouter::with(change).await;
    let worker = router
        .worker(FakeWorker {
            tokens_per_step: 16_384,
            step_time: Duration::from_millis(5),
            max_context: MANY,
            ..FakeWorker::default()
        })
        .await;
    (router, worker)
}

async fn over_grpc(router: &TestRouter, timeout: Option<u64>) -> Streaming<v1::GenerateEvent> {
    let mut asked = request("abc");
    asked.stopping = Some(v1::Stopping {
        ignore_eos: Some(true),
        ..Default::default()
    });
    let mut asked = Request::new(asked);
    if let Some(seconds) = timeout {
        asked.set_timeout(Duration::from_secs(seconds));
    }
    within(router.client().await.generate_stream(asked))
        .await
        .unwrap()
        .into_inner()
}

async fn over_http(router: &TestRouter) -> TcpStream {
    let body = format!(
        r#"{{"prompt": "abc", "stream": true, "ignore_eos": true, "return_token_ids": true,
            "max_tokens": {}}}"#,
        MANY / 2
    );
    let head = format!(
        "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let address = router.bound.http.as_deref().unwrap().parse().unwrap();
    let mut stream = within(socket.connect(address)).await.unwrap();
    within(stream.write_all((head + &body).as_bytes()))
        .await
        .unwrap();
    stream
}

async fn hear_cancel(worker: &mut TestWorker) {
    while !matches!(worker.hear().await, Message::Cancel(_)) {}
}

#[tokio::test]
async fn grpc_stream_that_is_not_read_ends_and_says_why() {
    let (router, mut worker) = talkative(|config| config.limits.client_stall_timeout_s = 0.5).await;
    let unread = over_grpc(&router, None).await;
    hear_cancel(&mut worker).await;
    // The connection is not to blame: its other calls go on, and the stream ends with its reason.
    let short = within(router.client().await.generate(request("abc"))).await;
    assert_eq!(short.unwrap().into_inner().choices[0].text, "abc");
    let events: Vec<_> = within(unread.collect()).await;
    let last = events.into_iter().last().unwrap().unwrap_err();
    assert_eq!(last.code(), Code::Cancelled);
    assert!(last.message().contains("nothing of the answer"), "{last}");
}

#[tokio::test]
async fn http_stream_that_is_not_read_ends() {
    let (router, mut worker) = talkative(|config| config.limits.client_stall_timeout_s = 0.5).await;
    let _unread = over_http(&router).await;
    hear_cancel(&mut worker).await;
    router.shutdown.request();
    assert_eq!(router.ended().await, Ending::Drained);
}

#[tokio::test]
async fn stream_that_is_not_read_ends_at_its_deadline() {
    let (router, mut worker) = talkative(|config| config.limits.default_deadline_s = 1.0).await;
    let _over_http = over_http(&router).await;
    hear_cancel(&mut worker).await;
    let _over_grpc = over_grpc(&router, Some(1)).await;
    hear_cancel(&mut worker).await;
}

#[tokio::test]
async fn streams_that_are_not_read_do_not_hold_a_drain() {
    let (router, mut worker) = talkative(|_| {}).await;
    let _over_grpc = over_grpc(&router, None).await;
    let _over_http = over_http(&router).await;
    for _ in 0..2 {
        assert!(matches!(worker.hear().await, Message::Start(_)));
    }
    router.shutdown.request();
    assert_eq!(router.ended().await, Ending::Drained);
}
