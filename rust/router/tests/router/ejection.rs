//! A worker that fails what others can run gets no more of it.

use crate::support::fake_worker::FakeWorker;
use crate::support::{TestRouter, TestWorker, get, request, within};
use spectrie_proto::worker_v1::FinishKind;
use spectrie_proto::worker_v1::router_message::Message;

/// A worker that ends every choice in this way, without a token.
fn failing(kind: FinishKind) -> FakeWorker {
    FakeWorker {
        ends: Some((0, kind)),
        tokens_per_step: 0,
        ..FakeWorker::default()
    }
}

/// How many of so many requests fail, one after the other.
async fn failures(router: &TestRouter, count: usize) -> usize {
    let mut failures = 0;
    for _ in 0..count {
        let answer = within(router.client().await.generate(request("abcdef"))).await;
        failures += usize::from(answer.is_err());
    }
    failures
}

fn num_starts(worker: &mut TestWorker) -> usize {
    let mut count = 0;
    while let Ok(heard) = worker.heard.try_recv() {
        count += usize::from(matches!(heard.message, Some(Message::Start(_))));
    }
    count
}

async fn is_ejected(router: &TestRouter, worker: &str) -> bool {
    let address = router.bound.http.as_ref().unwrap();
    let text = get(address, "/metrics").await;
    let line =
        |value| format!("spectrie_worker_ejected{{model=\"fake\",worker=\"{worker}\"}} {value}");
    assert!(text.contains(&line(0)) || text.contains(&line(1)), "{text}");
    let is_ejected = text.contains(&line(1));
    let closed = format!(
        "spectrie_circuit_state{{model=\"fake\",worker=\"{worker}\",state=\"closed\"}} {}",
        u8::from(!is_ejected)
    );
    assert!(text.contains(&closed), "{closed} in {text}");
    is_ejected
}

#[tokio::test]
async fn broken_worker_of_two_gets_three_requests_and_probes() {
    let router = TestRouter::start().await;
    let _good = router.worker(FakeWorker::default()).await;
    let mut broken = router.worker(failing(FinishKind::FinishFailed)).await;
    assert_eq!(failures(&router, 40).await, 0, "each goes on at the other");
    assert!(is_ejected(&router, "w2").await && !is_ejected(&router, "w1").await);
    // A probe a pause: of 1 s at first, then twice as long each time.
    let starts = num_starts(&mut broken);
    assert!((3..=9).contains(&starts), "{starts}");
}

#[tokio::test]
async fn what_is_the_requests_own_fault_ejects_nobody() {
    for kind in [FinishKind::FinishInvalid, FinishKind::FinishRefused] {
        let router = TestRouter::start().await;
        let _good = router.worker(FakeWorker::default()).await;
        let mut other = router.worker(failing(kind)).await;
        let failures = failures(&router, 20).await;
        assert_eq!(failures > 0, kind == FinishKind::FinishInvalid);
        assert!(!is_ejected(&router, "w2").await);
        assert!(num_starts(&mut other) > 9);
    }
}

#[tokio::test]
async fn what_every_worker_fails_is_held_against_none() {
    let router = TestRouter::start().await;
    let _first = router.worker(failing(FinishKind::FinishFailed)).await;
    let _second = router.worker(failing(FinishKind::FinishFailed)).await;
    assert_eq!(failures(&router, 10).await, 10);
    assert!(!is_ejected(&router, "w1").await && !is_ejected(&router, "w2").await);
}
