//! Streams whose router dies, stops or lets them go, and that go on at another.

use std::collections::BTreeMap;
use std::time::Duration;

use spectrie_proto::v1;
use tonic::{Code, Status};

use super::client::{Client, Events};
use super::mortal::{Mortal, connected, metric, wait_for};
use super::{TEXT, begin, resume, rich, whole};
use crate::support::fake_redis::{FakeRedis, Key, Mood};
use crate::support::fake_worker::FakeWorker;
use crate::support::{Message, TestRouter, TestWorker, get, request, within};

/// A worker that stops at its seventh token.
pub(super) fn halting() -> FakeWorker {
    FakeWorker {
        freezes_after: Some(6),
        ..FakeWorker::default()
    }
}

pub(super) async fn join(redis: &FakeRedis, worker: FakeWorker) -> (TestRouter, TestWorker) {
    let address = redis.address();
    let router = TestRouter::with(|config| config.fleet.redis = Some(address)).await;
    connected(&router, 1).await;
    let worker = router.worker(worker).await;
    (router, worker)
}

/// A client with all that a halting worker gave of each choice, which Redis has too.
pub(super) async fn half(
    mortal: &Mortal,
    redis: &FakeRedis,
    asked: v1::GenerateRequest,
) -> (Client, Events) {
    let num_choices = asked
        .sampling
        .as_ref()
        .and_then(|sampling| sampling.n)
        .unwrap_or(1) as usize;
    let mut events = begin(&mortal.router, asked).await;
    let mut client = Client::default();
    let has_all = |client: &Client| {
        let choices = client.choices.values();
        choices.filter(|choice| choice.token_ids.len() == 6).count() == num_choices
    };
    while !has_all(&client) {
        client.read(&mut events, 1).await.unwrap();
    }
    within(async {
        while !redis
            .records()
            .values()
            .any(|fields| fields.contains_key(&b"p1"[..]))
        {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    (client, events)
}

pub(super) type Fields = BTreeMap<Vec<u8>, Vec<u8>>;
type Spoil = fn(&mut Fields);

/// Changes the fields of all records.
pub(super) fn change(redis: &FakeRedis, change: impl Fn(&mut Fields)) {
    for (name, key) in redis.keys.lock().unwrap().iter_mut() {
        if let Key::Hash(fields) = key
            && name.contains(":stream:")
        {
            change(fields);
        }
    }
}

const PUBLISHED: &str = "spectrie_fleet_published_total";

async fn refusal(router: &TestRouter, asked: v1::ResumeStreamRequest) -> Status {
    resume(router, asked).await.unwrap_err()
}

#[tokio::test]
async fn stream_outlives_its_router_token_for_token_and_is_counted_and_taught_once() {
    let redis = FakeRedis::start();
    let (second, mut worker) = join(&redis, FakeWorker::default()).await;
    let mut num_taken = 0;
    for (lags, stop) in [(false, &[][..]), (true, &[]), (true, &["klmnop"])] {
        let expected = whole(&second, rich(stop)).await.answer();
        if stop.is_empty() {
            // Both of its choices.
            wait_for(&second, PUBLISHED, 2 + 2 * num_taken * 2).await;
        }
        let mut first = Mortal::start(&redis).await;
        let _worker = first.router.worker(halting()).await;
        let published = metric(&second, PUBLISHED).await;
        let (mut client, _events) = half(&first, &redis, rich(stop)).await;
        first.kill(&redis);
        if lags {
            // As if its last words had not come: the client has more than the record.
            change(&redis, |fields| {
                fields.retain(|field, _| !field.starts_with(b"p") || field == b"p0");
            });
        }
        while worker.heard.try_recv().is_ok() {}
        let mut events = resume(&second, client.resume()).await.unwrap();
        client.read(&mut events, usize::MAX).await.unwrap();
        let Message::Start(start) = worker.hear().await else {
            panic!("no start")
        };
        assert_eq!(start.emitted_token_ids.is_empty(), lags);
        assert_eq!(client.answer(), expected, "{lags}");
        let taken = "spectrie_fleet_streams_taken_over_total";
        num_taken += 1;
        assert_eq!(metric(&second, taken).await, num_taken);
        if stop.is_empty() {
            wait_for(&second, PUBLISHED, published + 2).await;
        }
    }
}

#[tokio::test]
async fn events_over_http_go_on_at_another_router() {
    let redis = FakeRedis::start();
    let (second, _worker) = join(&redis, FakeWorker::default()).await;
    let mut first = Mortal::start(&redis).await;
    let _first_worker = first.router.worker(halting()).await;
    let (client, _events) = half(&first, &redis, request(TEXT)).await;
    first.kill(&redis);
    // One of gRPC has no form, so that it is none of HTTP's; this leaves it to the next router.
    let address = second.bound.http.as_deref().unwrap();
    let path = format!("/v1/streams/{}", client.started[0].request_id);
    let missing = get(address, &path).await;
    assert!(missing.starts_with("HTTP/1.1 4"), "{missing}");
    let mut events = resume(&second, client.resume()).await.unwrap();
    let mut client = client;
    client.read(&mut events, usize::MAX).await.unwrap();
    assert_eq!(client.choices[&0].finished.len(), 1);
}

#[tokio::test]
async fn only_the_token_takes_a_stream_and_redis_never_holds_it() {
    let redis = FakeRedis::start();
    let (second, _worker) = join(&redis, FakeWorker::default()).await;
    let mut first = Mortal::start(&redis).await;
    let _first_worker = first.router.worker(halting()).await;
    let (client, _events) = half(&first, &redis, request(TEXT)).await;
    let token = client.started[0].resume_token.clone().unwrap();
    let digits = token.as_bytes().to_vec();
    let raw: Vec<u8> = (0..16)
        .map(|byte| u8::from_str_radix(&token[2 * byte..2 * byte + 2], 16).unwrap())
        .collect();
    for value in redis.records().values().flat_map(|fields| fields.values()) {
        let holds = |secret: &[u8]| value.windows(secret.len()).any(|bytes| bytes == secret);
        assert!(!holds(&digits) && !holds(&raw));
    }
    first.kill(&redis);
    let before = redis.records();
    let wrong = v1::ResumeStreamRequest {
        resume_token: "0".repeat(32),
        ..client.resume()
    };
    assert_eq!(refusal(&second, wrong).await.code(), Code::NotFound);
    assert_eq!(redis.records(), before);
    assert!(resume(&second, client.resume()).await.is_ok());
}

#[tokio::test]
async fn spoiled_records_and_those_of_other_versions_are_refused() {
    let redis = FakeRedis::start();
    let (second, _worker) = join(&redis, FakeWorker::default()).await;
    let spoils: [(&str, Spoil); 4] = [
        ("damaged", |fields| {
            *fields.get_mut(&b"h"[..]).unwrap().last_mut().unwrap() ^= 1;
        }),
        ("damaged", |fields| {
            let piece = fields.get_mut(&b"p1"[..]).unwrap();
            *piece.last_mut().unwrap() ^= 1;
        }),
        ("damaged", |fields| {
            fields.remove(&b"p0"[..]);
        }),
        ("version", |fields| {
            fields.get_mut(&b"h"[..]).unwrap()[4] += 1;
        }),
    ];
    for (count, (reason, spoil)) in spoils.into_iter().enumerate() {
        let mut first = Mortal::start(&redis).await;
        let _first_worker = first.router.worker(halting()).await;
        let (client, _events) = half(&first, &redis, request(TEXT)).await;
        first.kill(&redis);
        change(&redis, spoil);
        let refused = refusal(&second, client.resume()).await;
        assert_eq!(refused.code(), Code::FailedPrecondition, "{count}");
        let name = format!("spectrie_fleet_streams_refused_total{{reason=\"{reason}\"}}");
        assert!(metric(&second, &name).await > 0, "{count}");
        redis.flush();
    }
}

#[tokio::test]
async fn router_whose_tokens_would_differ_refuses_and_leaves_the_stream_to_others() {
    let redis = FakeRedis::start();
    let other = FakeWorker {
        fingerprint: "other".into(),
        ..FakeWorker::default()
    };
    let (differs, _other_worker) = join(&redis, other).await;
    let heavier = FakeWorker {
        model_hash: "1".repeat(64),
        ..FakeWorker::default()
    };
    let (weighs, _heavier_worker) = join(&redis, heavier).await;
    let (third, _worker) = join(&redis, FakeWorker::default()).await;
    let expected = whole(&third, rich(&[])).await.answer();
    let mut first = Mortal::start(&redis).await;
    let _first_worker = first.router.worker(halting()).await;
    let (mut client, _events) = half(&first, &redis, rich(&[])).await;
    first.kill(&redis);
    let refused = refusal(&differs, client.resume()).await;
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("would differ"), "{refused}");
    let refused = refusal(&weighs, client.resume()).await;
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("other weights"), "{refused}");
    let mut events = resume(&third, client.resume()).await.unwrap();
    client.read(&mut events, usize::MAX).await.unwrap();
    assert_eq!(client.answer(), expected);
}

#[tokio::test]
async fn living_router_gives_up_what_its_client_asks_another_for() {
    let redis = FakeRedis::start();
    let first = Mortal::start(&redis).await;
    let _first_worker = first.router.worker(halting()).await;
    let (second, _second_worker) = join(&redis, halting()).await;
    let (mut client, mut hanging) = half(&first, &redis, request(TEXT)).await;
    // Back and forth: each has a record of its own, of which only the newest counts.
    let mut events = resume(&second, client.resume()).await.unwrap();
    let cut = Client::default().read(&mut hanging, 1).await.unwrap_err();
    assert_eq!(cut.code(), Code::Cancelled);
    drop(events);
    events = resume(&first.router, client.resume()).await.unwrap();
    drop(events);
    let (third, _third_worker) = join(&redis, FakeWorker::default()).await;
    let expected = whole(&third, request(TEXT)).await.answer();
    let mut events = resume(&third, client.resume()).await.unwrap();
    client.read(&mut events, usize::MAX).await.unwrap();
    assert_eq!(client.answer(), expected);
    assert_eq!(
        metric(&first.router, "spectrie_fleet_leases_lost_total").await,
        0
    );
}

#[tokio::test]
async fn of_two_callers_at_two_routers_one_gets_the_stream() {
    let redis = FakeRedis::start();
    let (second, _second_worker) = join(&redis, FakeWorker::default()).await;
    let (third, _third_worker) = join(&redis, FakeWorker::default()).await;
    let expected = whole(&second, request(TEXT)).await.answer();
    let mut first = Mortal::start(&redis).await;
    let _first_worker = first.router.worker(halting()).await;
    let (client, _events) = half(&first, &redis, request(TEXT)).await;
    first.kill(&redis);
    let ask = async |router: &TestRouter| {
        let mut client = client.clone();
        let mut events = resume(router, client.resume()).await.ok()?;
        client.read(&mut events, usize::MAX).await.ok()?;
        Some(client.answer())
    };
    let answers = tokio::join!(ask(&second), ask(&third));
    let answers = [answers.0, answers.1];
    let got: Vec<_> = answers.into_iter().flatten().collect();
    // One that came when the other had it whole got it again: of what was sent, nothing differs.
    assert!(!got.is_empty() && got.iter().all(|answer| *answer == expected));
    let runs = metric(&second, PUBLISHED).await + metric(&third, PUBLISHED).await;
    // The undisturbed one was published too.
    assert!(runs <= 2, "{runs}");
}

#[tokio::test]
async fn router_that_was_stopped_ends_what_another_took_over_and_teaches_nothing_of_it() {
    let redis = FakeRedis::start();
    let first = Mortal::start(&redis).await;
    let slow = FakeWorker {
        step_time: Duration::from_millis(5),
        ..FakeWorker::default()
    };
    let _first_worker = first.router.worker(slow).await;
    let (second, _second_worker) = join(&redis, FakeWorker::default()).await;
    let mut asked = request(TEXT);
    asked.stopping = Some(v1::Stopping {
        max_tokens: Some(300),
        ignore_eos: Some(true),
        ..Default::default()
    });
    let expected = whole(&second, asked.clone()).await.answer();
    wait_for(&second, PUBLISHED, 1).await;
    let mut stopped_events = begin(&first.router, asked).await;
    let mut client = Client::default();
    client.read(&mut stopped_events, 2).await.unwrap();
    within(async {
        while redis.records().is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    let stopped = first.stop().await;
    // Its worker goes on meanwhile, and its lease ends.
    let mut events = resume(&second, client.resume()).await.unwrap();
    let mut at_second = client.clone();
    at_second.read(&mut events, usize::MAX).await.unwrap();
    assert_eq!(at_second.clone().answer(), expected);
    wait_for(&second, PUBLISHED, 2).await;
    drop(stopped);
    let ended = loop {
        match client.read(&mut stopped_events, 1).await {
            Ok(true) => {}
            other => break other,
        }
    };
    assert_eq!(ended.unwrap_err().code(), Code::Cancelled);
    wait_for(&first.router, "spectrie_fleet_leases_lost_total", 1).await;
    assert_eq!(metric(&first.router, PUBLISHED).await, 0);
    // The one that has it goes on to have it.
    let again = resume(&second, at_second.resume()).await;
    assert!(again.is_ok());
}

#[tokio::test]
async fn streams_that_may_not_be_learned_or_are_private_end_with_their_router() {
    let redis = FakeRedis::start();
    let (second, _second_worker) = join(&redis, FakeWorker::default()).await;
    for is_private in [false, true] {
        let mut first = Mortal::with(&redis, move |config| {
            if is_private {
                config.fleet.private_namespaces = vec!["default".into()];
            }
        })
        .await;
        let _first_worker = first.router.worker(halting()).await;
        let mut client = Client::default();
        let asked = v1::GenerateRequest {
            speculation: Some(v1::Speculation {
                learn: Some(is_private),
                ..Default::default()
            }),
            ..request(TEXT)
        };
        let mut events = begin(&first.router, asked).await;
        while client.choices.is_empty() {
            client.read(&mut events, 1).await.unwrap();
        }
        // One that is shared is written within moments, and after what came before it.
        let mut shared = Client::default();
        if !is_private {
            shared = half(&first, &redis, request(TEXT)).await.0;
        }
        assert_eq!(redis.records().len(), shared.started.len());
        first.kill(&redis);
        let refused = refusal(&second, client.resume()).await;
        assert_eq!(refused.code(), Code::NotFound);
        redis.flush();
    }
}

#[tokio::test]
async fn forgotten_streams_leave_redis_and_are_taken_by_none() {
    let redis = FakeRedis::start();
    let (second, _second_worker) = join(&redis, FakeWorker::default()).await;
    let mut first = Mortal::start(&redis).await;
    let _first_worker = first.router.worker(halting()).await;
    let (client, _events) = half(&first, &redis, request(TEXT)).await;
    let (dead, _dead_events) = half(&first, &redis, request(TEXT)).await;
    let before = redis.records();
    let forget = v1::ForgetNamespaceRequest {
        name: "default".into(),
        ..Default::default()
    };
    within(second.admin().await.forget_namespace(forget))
        .await
        .unwrap();
    within(async {
        while !redis.records().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(
        refusal(&second, client.resume()).await.code(),
        Code::NotFound
    );
    // One that a router left behind which never heard of it.
    first.kill(&redis);
    for (name, fields) in before {
        redis.keys.lock().unwrap().insert(name, Key::Hash(fields));
    }
    assert!(resume(&second, dead.resume()).await.is_err());
}

#[tokio::test]
async fn streams_go_on_in_every_mood_of_redis_and_are_written_again_after_it() {
    let redis = FakeRedis::start();
    let (second, _second_worker) = join(&redis, FakeWorker::default()).await;
    let mut first = Mortal::start(&redis).await;
    let _first_worker = first.router.worker(FakeWorker::default()).await;
    let expected = whole(&first.router, rich(&[])).await.answer();
    for mood in [Mood::Silent, Mood::Garbage, Mood::Full, Mood::Cut] {
        redis.set(mood);
        // Cut and gone on with at its own router, too.
        let mut client = Client::default();
        let mut events = begin(&first.router, rich(&[])).await;
        client.read(&mut events, 2).await.unwrap();
        drop(events);
        let mut events = resume(&first.router, client.resume()).await.unwrap();
        client.read(&mut events, usize::MAX).await.unwrap();
        assert_eq!(client.answer(), expected, "{mood:?}");
        redis.set(Mood::Good);
        connected(&first.router, 1).await;
        connected(&second, 1).await;
    }
    redis.spoil();
    // A slow one that began before Redis lost all.
    let slow = FakeWorker {
        step_time: Duration::from_millis(20),
        model: "slow".into(),
        ..FakeWorker::default()
    };
    let _slow = first.router.worker(slow.clone()).await;
    let _second_slow = second.worker(slow).await;
    let asked = v1::GenerateRequest {
        model: Some("slow".into()),
        stopping: Some(v1::Stopping {
            max_tokens: Some(400),
            ignore_eos: Some(true),
            ..Default::default()
        }),
        ..request(TEXT)
    };
    let mut client = Client::default();
    let mut events = begin(&first.router, asked).await;
    client.read(&mut events, 2).await.unwrap();
    let is_written = || !redis.records().is_empty();
    for loses in [FakeRedis::flush, FakeRedis::spoil] {
        within(async {
            while !is_written() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
        loses(&redis);
    }
    within(async {
        while !is_written() {
            client.read(&mut events, 1).await.unwrap();
        }
    })
    .await;
    first.kill(&redis);
    let mut events = resume(&second, client.resume()).await.unwrap();
    client.read(&mut events, usize::MAX).await.unwrap();
    assert_eq!(client.choices[&0].token_ids.len(), 400);
}
