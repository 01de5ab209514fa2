//! Streams of a router that is asked to end.

use std::time::Duration;

use spectrie_router::RouterConfig;
use tonic::Code;

use super::client::Client;
use super::elsewhere::{half, halting, join};
use super::mortal::{Mortal, metric, wait_for};
use super::{TEXT, resume, whole};
use crate::support::fake_redis::{FakeRedis, Key};
use crate::support::fake_worker::FakeWorker;
use crate::support::{request, within};

/// Routers that Redis takes to be alive.
fn num_lives(redis: &FakeRedis) -> usize {
    let keys = redis.keys.lock().unwrap();
    let lives = keys.values().filter(|key| matches!(key, Key::Life(_)));
    lives.count()
}

#[tokio::test]
async fn what_a_drain_cuts_is_left_before_its_router_counts_as_gone() {
    // By the longest time that a drain may take, and by a second signal.
    for (drain_s, num_signals) in [(0.05, 1), (3600.0, 2)] {
        let redis = FakeRedis::start();
        let end = move |config: &mut RouterConfig| config.runtime.drain_s = drain_s;
        let first = Mortal::with(&redis, end).await;
        let _worker = first.router.worker(halting()).await;
        let (mut client, mut events) = half(&first, &redis, request(TEXT)).await;
        for _ in 0..num_signals {
            first.router.shutdown.request();
        }
        let cut = Client::default().read(&mut events, 1).await.unwrap_err();
        assert_eq!(cut.code(), Code::Unavailable);
        assert!(cut.message().contains("shutting down"), "{cut}");
        within(async {
            while !first.router.has_ended() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
        let record = redis.records().into_values().next().unwrap();
        assert!(
            record[&b"o"[..]].starts_with(b"-"),
            "its owner is said to run it"
        );
        assert_eq!(num_lives(&redis), 0, "its router is said to live");

        let (second, _worker) = join(&redis, FakeWorker::default()).await;
        let expected = whole(&second, request(TEXT)).await.answer();
        let mut events = resume(&second, client.resume()).await.unwrap();
        client.read(&mut events, usize::MAX).await.unwrap();
        assert_eq!(client.answer(), expected);
        wait_for(&second, "spectrie_fleet_published_total", 2).await;
        let tokens = metric(&second, "spectrie_generated_tokens_total").await;
        assert_eq!(tokens, 2 * expected[&0].token_ids.len() as u64 - 6);
    }
}
