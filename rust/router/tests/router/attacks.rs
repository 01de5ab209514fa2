//! Floods of frames: the stream of another client goes on, and health answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use spectrie_proto::v1::generate_event::Event;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_stream::StreamExt as _;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::support::fake_worker::FakeWorker;
use crate::support::frames::{
    CONTINUATION, DATA, END_HEADERS, HEADERS, PING, RST_STREAM, RawConnection, SETTINGS,
    WINDOW_UPDATE, call_fields, frame,
};
use crate::support::{TestRouter, request, within};

const PATH: &str = "/spectrie.v1.Inference/Generate";
const PROBES: usize = 20;

type Frames = fn(u32) -> Vec<u8>;

/// The bytes of a flood's round `n`, after what begins it.
const FLOODS: &[(&str, Option<Frames>, Frames)] = &[
    ("rapid reset", None, |n| {
        let stream = 2 * n + 1;
        let mut bytes = frame(HEADERS, END_HEADERS, stream, &call_fields(PATH));
        bytes.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
        bytes
    }),
    ("made you reset", None, |n| {
        let stream = 2 * n + 1;
        let mut bytes = frame(HEADERS, END_HEADERS, stream, &call_fields(PATH));
        // An increment of 0 is an error of the stream: the server resets it.
        bytes.extend(frame(WINDOW_UPDATE, 0, stream, &0_u32.to_be_bytes()));
        bytes
    }),
    (
        "continuation",
        Some(|_| frame(HEADERS, 0, 1, &call_fields(PATH))),
        |_| {
            let field = [&[0, 1, b'a', 100][..], &[b'v'; 100]].concat();
            frame(CONTINUATION, 0, 1, &field.repeat(100))
        },
    ),
    (
        "empty continuation",
        Some(|_| frame(HEADERS, 0, 1, &call_fields(PATH))),
        |_| frame(CONTINUATION, 0, 1, &[]),
    ),
    (
        "empty data",
        Some(|_| frame(HEADERS, END_HEADERS, 1, &call_fields(PATH))),
        |_| frame(DATA, 0, 1, &[]),
    ),
    ("settings", None, |n| {
        let setting = [&[0, 4][..], &(n % 1000 + 1).to_be_bytes()].concat();
        frame(SETTINGS, 0, 0, &setting)
    }),
    ("ping", None, |n| {
        frame(PING, 0, 0, &u64::from(n).to_be_bytes())
    }),
    ("half bodies", None, |n| {
        let stream = 2 * n + 1;
        let mut bytes = frame(HEADERS, END_HEADERS, stream, &call_fields(PATH));
        let half = [&[0, 0, 0x40, 0, 0][..], &[b'a'; 1000]].concat();
        bytes.extend(frame(DATA, 0, stream, &half));
        bytes
    }),
];

/// Floods until the server hangs up or `stop`, again and again.
async fn flood(address: String, first: Option<Frames>, next: Frames, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        let mut connection = RawConnection::open(&address).await;
        if let Some(first) = first {
            connection.send(&first(0)).await;
        }
        let mut round = 0;
        while !stop.load(Ordering::Relaxed) && connection.send(&next(round)).await {
            round += 1;
            tokio::task::yield_now().await;
        }
    }
}

/// The whole streamed answer to `prompt`.
async fn bystander(router: &TestRouter, prompt: &str) -> String {
    let mut client = router.client().await;
    let stream = client.generate_stream(request(prompt)).await.unwrap();
    let mut stream = stream.into_inner();
    let mut text = String::new();
    while let Some(event) = stream.next().await {
        if let Some(Event::Delta(delta)) = event.unwrap().event {
            text += &delta.text;
        }
    }
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_go_on_and_health_answers_beside_every_flood() {
    for (name, first, next) in FLOODS {
        let router = TestRouter::start().await;
        let worker = FakeWorker {
            tokens_per_step: 1,
            ..FakeWorker::default()
        };
        let _worker = router.worker(worker).await;
        let address = router.bound.grpc.clone().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let floods: Vec<_> = (0..2)
            .map(|_| tokio::spawn(flood(address.clone(), *first, *next, stop.clone())))
            .collect();
        let prompt = "go on ".repeat(30);
        let probes = async {
            for _ in 0..PROBES {
                let mut health = HealthClient::new(router.channel().await);
                health.check(HealthCheckRequest::default()).await.unwrap();
            }
        };
        let both = Box::pin(async { tokio::join!(bystander(&router, &prompt), probes) });
        let (text, ()) = within(both).await;
        stop.store(true, Ordering::Relaxed);
        assert_eq!(text, prompt, "{name}");
        for flood in floods {
            flood.abort();
        }
    }
}

#[tokio::test]
async fn slow_headers_hold_nobody_up() {
    let router = TestRouter::with(|config| config.limits.max_connections = Some(16)).await;
    let _worker = router.worker(FakeWorker::default()).await;
    let address = router.bound.http.clone().unwrap();
    let mut slow = Vec::new();
    for _ in 0..100 {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        let half = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-slow: ";
        // The place of one that waits is needed for the next.
        let _ = stream.write_all(half).await;
        slow.push(stream);
        if slow.len() % 20 == 0 {
            let mut client = router.client().await;
            let answer = within(client.generate(request("abc"))).await.unwrap();
            assert_eq!(answer.into_inner().choices[0].text, "abc");
        }
    }
}
