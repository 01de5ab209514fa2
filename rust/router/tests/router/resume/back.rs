//! Clients that come back to the router that served them.

use std::time::Duration;

use spectrie_proto::v1;
use tonic::Code;

use super::client::Client;
use super::elsewhere::{change, half, halting, join};
use super::mortal::{Mortal, metric};
use super::{TEXT, begin, resume, whole};
use crate::support::fake_redis::{FakeRedis, Key};
use crate::support::fake_worker::FakeWorker;
use crate::support::{request, within};

/// A request that takes a slow worker seconds.
fn long() -> v1::GenerateRequest {
    let mut asked = request(TEXT);
    asked.stopping = Some(v1::Stopping {
        max_tokens: Some(300),
        ignore_eos: Some(true),
        ..Default::default()
    });
    asked
}

fn slow() -> FakeWorker {
    FakeWorker {
        step_time: Duration::from_millis(10),
        ..FakeWorker::default()
    }
}

/// Takes the pieces of the record, as if its last words had not come.
fn forget_tokens(redis: &FakeRedis) {
    change(redis, |fields| {
        fields.retain(|field, _| !field.starts_with(b"p") || field == b"p0");
    });
}

#[tokio::test]
async fn tokens_that_only_the_client_has_bind_the_stream_to_their_numerics() {
    let redis = FakeRedis::start();
    let other = FakeWorker {
        fingerprint: "other".into(),
        ..FakeWorker::default()
    };
    let (second, _second_worker) = join(&redis, other).await;
    let mut first = Mortal::start(&redis).await;
    let _first_worker = first.router.worker(halting()).await;
    let (client, _events) = half(&first, &redis, request(TEXT)).await;
    first.kill(&redis);
    forget_tokens(&redis);
    let refused = resume(&second, client.resume()).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    // One that has none of them may have others.
    let anew = v1::ResumeStreamRequest {
        starting_after: Vec::new(),
        ..client.resume()
    };
    let mut events = resume(&second, anew).await.unwrap();
    let mut anew = Client::default();
    anew.read(&mut events, usize::MAX).await.unwrap();
    assert!(!anew.choices[&0].finished[0].numerics_changed);
}

#[tokio::test]
async fn tokens_that_fast_arithmetic_computes_again_are_said_to_be_others() {
    let redis = FakeRedis::start();
    for lags in [false, true] {
        let fast = || "fast".to_owned();
        let worker = FakeWorker {
            fingerprint: fast(),
            ..FakeWorker::default()
        };
        let (second, _second_worker) = join(&redis, worker).await;
        let mut first = Mortal::start(&redis).await;
        let worker = FakeWorker {
            fingerprint: fast(),
            ..halting()
        };
        let _first_worker = first.router.worker(worker).await;
        let (mut client, _events) = half(&first, &redis, request(TEXT)).await;
        first.kill(&redis);
        if lags {
            forget_tokens(&redis);
        } else {
            // All that the client has is there.
            client.choices.clear();
        }
        let mut events = resume(&second, client.resume()).await.unwrap();
        client.read(&mut events, usize::MAX).await.unwrap();
        assert_eq!(client.choices[&0].finished[0].numerics_changed, lags);
        redis.flush();
    }
}

#[tokio::test]
async fn position_that_no_record_bears_out_is_charged() {
    let redis = FakeRedis::start();
    let roomy = FakeWorker {
        max_context: 2048,
        ..FakeWorker::default()
    };
    let (second, _second_worker) = join(&redis, roomy.clone()).await;
    let mut first = Mortal::start(&redis).await;
    let halting = FakeWorker {
        max_context: 2048,
        ..halting()
    };
    let _first_worker = first.router.worker(halting).await;
    let mut asked = request(TEXT);
    asked.stopping = Some(v1::Stopping {
        max_tokens: Some(1000),
        ignore_eos: Some(true),
        ..Default::default()
    });
    let (client, _events) = half(&first, &redis, asked).await;
    first.kill(&redis);
    forget_tokens(&redis);
    let ahead = v1::ResumeStreamRequest {
        starting_after: vec![v1::StreamPosition {
            index: 0,
            position: 1000,
        }],
        ..client.resume()
    };
    let mut events = resume(&second, ahead).await.unwrap();
    let mut rest = Client::default();
    rest.read(&mut events, usize::MAX).await.unwrap();
    assert!(rest.choices[&0].token_ids.is_empty());
    let generated = "spectrie_generated_tokens_total";
    assert_eq!(metric(&second, generated).await, 1000 - 512);
}

#[tokio::test]
async fn second_stream_of_a_name_is_shared_though_the_first_was_not_let_go() {
    let redis = FakeRedis::start();
    let (router, _worker) = join(&redis, halting()).await;
    let asked = || v1::GenerateRequest {
        request_id: Some("one".into()),
        ..request(TEXT)
    };
    let mut events = begin(&router, asked()).await;
    Client::default().read(&mut events, 2).await.unwrap();
    let (_, before) = owned(&redis).await;
    redis.refuse("-- write", true);
    drop(events);
    within(async {
        while redis.num_refused("-- write") == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    redis.refuse("-- write", false);
    let mut events = begin(&router, asked()).await;
    Client::default().read(&mut events, 2).await.unwrap();
    within(async {
        while owned(&redis).await.1 == before {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

/// Key and owner of the only record of a stream that runs, once it is written; what others left may be there too.
async fn owned(redis: &FakeRedis) -> (String, String) {
    within(async {
        loop {
            let records = redis.records();
            let owner =
                |(key, fields): (&String, &std::collections::BTreeMap<Vec<u8>, Vec<u8>>)| {
                    let owner = String::from_utf8_lossy(&fields[&b"o"[..]]).into_owned();
                    (key.clone(), owner)
                };
            let runs = |found: &(String, String)| !found.1.starts_with('-');
            if let Some(found) = records.iter().map(owner).find(runs) {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await
}

#[tokio::test]
async fn client_goes_on_at_its_router_while_the_last_words_to_redis_are_still_to_come() {
    let redis = FakeRedis::start();
    let (router, _worker) = join(&redis, slow()).await;
    let expected = whole(&router, long()).await.answer();
    let mut client = Client::default();
    let mut events = begin(&router, long()).await;
    client.read(&mut events, 3).await.unwrap();
    let (_, before) = owned(&redis).await;
    redis.refuse("-- write", true);
    drop(events);
    let mut events = resume(&router, client.resume()).await.unwrap();
    client.read(&mut events, 1).await.unwrap();
    redis.refuse("-- write", false);
    let (_, after) = owned(&redis).await;
    assert_ne!(before, after);
    client.read(&mut events, usize::MAX).await.unwrap();
    assert_eq!(client.answer(), expected);
}

#[tokio::test]
async fn wish_for_what_a_router_had_before_ends_nothing_that_it_has_again() {
    let redis = FakeRedis::start();
    let first = Mortal::start(&redis).await;
    let _first_worker = first.router.worker(slow()).await;
    let (second, _second_worker) = join(&redis, halting()).await;
    let expected = whole(&first.router, long()).await.answer();
    let mut client = Client::default();
    let mut hanging = begin(&first.router, long()).await;
    client.read(&mut hanging, 2).await.unwrap();
    let (key, owner) = owned(&redis).await;
    drop(resume(&second, client.resume()).await.unwrap());
    let mut events = resume(&first.router, client.resume()).await.unwrap();
    client.read(&mut events, 1).await.unwrap();
    // As if what the second asked for had been asked for once more.
    let wishes = format!("spectrie:1:wanted:{}", &owner[..32]);
    let wanted = [key.clone(), format!("{key} {owner}")];
    let wanted = wanted.map(String::into_bytes).to_vec();
    redis
        .keys
        .lock()
        .unwrap()
        .insert(wishes.clone(), Key::List(wanted));
    within(async {
        while redis.keys.lock().unwrap().contains_key(&wishes) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    client.read(&mut events, usize::MAX).await.unwrap();
    assert_eq!(client.answer(), expected);
    let lost = "spectrie_fleet_leases_lost_total";
    assert_eq!(metric(&first.router, lost).await, 0);
}
