//! Routers that share through a Redis, whatever that does.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::fake_redis::{FakeRedis, Key, Mood};
use crate::support::fake_worker::FakeWorker;
use crate::support::{Message, TestRouter, TestWorker, get, keys_file, request, within};
use spectrie_proto::v1;
use spectrie_proto::v1::generate_event::Event;
use spectrie_proto::worker_v1::admin_call::Call;
use spectrie_router::RouterConfig;
use tonic::Request;

mod limits;

/// A prompt whose answer has more tokens than a fake worker says that it holds.
const PROMPT: &str = "a longer prompt than seven tokens";

async fn join(redis: &FakeRedis) -> (TestRouter, TestWorker) {
    join_with(redis, |_| {}).await
}

async fn join_with(
    redis: &FakeRedis,
    change: impl FnOnce(&mut RouterConfig),
) -> (TestRouter, TestWorker) {
    let router = TestRouter::with(|config| {
        config.fleet.redis = Some(redis.address());
        change(config);
    })
    .await;
    let worker = router.worker(FakeWorker::default()).await;
    (router, worker)
}

async fn ask(router: &TestRouter, prompt: &str) -> Vec<u32> {
    let mut client = router.client().await;
    let answer = Box::pin(client.generate(request(prompt)));
    let answer = within(answer).await.unwrap();
    answer.into_inner().choices[0].token_ids.clone()
}

/// The next text that a worker is taught.
async fn taught(worker: &mut TestWorker) -> Vec<u32> {
    loop {
        if let Message::Learn(learn) = worker.hear().await {
            return learn.token_ids;
        }
    }
}

/// Waits until a worker is asked to forget a namespace.
async fn asked_to_forget(worker: &mut TestWorker) -> String {
    loop {
        if let Message::AdminCall(call) = worker.hear().await
            && let Some(Call::ForgetNamespace(forget)) = call.call
        {
            return forget.name;
        }
    }
}

/// Whether an entry holds tokens: others are shorter.
fn is_text(bytes: &[u8]) -> bool {
    bytes.len() > 100
}

/// Everything that was said to a worker and not yet looked at.
fn heard(worker: &mut TestWorker) -> Vec<Message> {
    let mut heard = Vec::new();
    while let Ok(message) = worker.heard.try_recv() {
        heard.extend(message.message);
    }
    heard
}

fn num_taught(messages: &[Message]) -> usize {
    let is_learn = |message: &&Message| matches!(message, Message::Learn(_));
    messages.iter().filter(is_learn).count()
}

async fn metric(router: &TestRouter, name: &str) -> u64 {
    let text = get(router.bound.http.as_deref().unwrap(), "/metrics").await;
    let line = text.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.split(' ').next_back()?.parse().ok())
        .unwrap_or(0)
}

async fn wait_for_metric(router: &TestRouter, name: &str, is_there: impl Fn(u64) -> bool) {
    within(async {
        while !is_there(metric(router, name).await) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

async fn forget(router: &TestRouter) -> v1::ForgetNamespaceResponse {
    forget_within(router, Duration::from_secs(20)).await
}

async fn forget_within(router: &TestRouter, time: Duration) -> v1::ForgetNamespaceResponse {
    let mut asked = Request::new(v1::ForgetNamespaceRequest {
        name: "default".into(),
        ..Default::default()
    });
    asked.set_timeout(time);
    let forgotten = within(router.admin().await.forget_namespace(asked)).await;
    forgotten.unwrap().into_inner()
}

#[tokio::test]
async fn text_of_one_router_is_taught_behind_the_others_once_and_not_echoed() {
    let redis = FakeRedis::start();
    let (first, mut first_worker) = join(&redis).await;
    let (second, mut second_worker) = join(&redis).await;
    let answer = ask(&first, PROMPT).await;
    assert_eq!(taught(&mut second_worker).await, answer);
    let other = ask(&second, "another prompt").await;
    assert_eq!(taught(&mut first_worker).await, other);
    let last = ask(&first, "the last prompt").await;
    assert_eq!(taught(&mut second_worker).await, last);
    // The first one heard nothing of its own, or it had come before these.
    wait_for_metric(&first, "spectrie_fleet_received_total", |n| n == 1).await;
    wait_for_metric(&second, "spectrie_fleet_received_total", |n| n == 2).await;
    assert_eq!(num_taught(&heard(&mut first_worker)), 0);
    assert_eq!(num_taught(&heard(&mut second_worker)), 0);
    wait_for_metric(&first, "spectrie_fleet_published_total", |n| n == 2).await;
    assert_eq!(metric(&first, "spectrie_fleet_connected").await, 1);
}

#[tokio::test]
async fn worker_that_joins_has_learned_before_it_is_ready() {
    let redis = FakeRedis::start();
    let (first, _first_worker) = join(&redis).await;
    let answer = ask(&first, PROMPT).await;
    wait_for_metric(&first, "spectrie_fleet_published_total", |n| n == 1).await;
    let (second, mut worker) = join(&redis).await;
    // It is ready: what it heard until now came before.
    ask(&second, "any").await;
    let messages = heard(&mut worker);
    let learned = messages
        .iter()
        .position(|message| matches!(message, Message::Learn(learn) if learn.token_ids == answer));
    let started = messages
        .iter()
        .position(|message| matches!(message, Message::Start(_)));
    assert!(learned.is_some() && learned < started, "{messages:?}");
    assert_eq!(num_taught(&messages), 1);
}

#[tokio::test]
async fn text_that_may_not_be_learned_and_private_namespaces_stay_off_the_bus() {
    let redis = FakeRedis::start();
    let keys = keys_file("ann-key ann\nbob-key bob\n");
    let router = TestRouter::with(|config| {
        config.fleet.redis = Some(redis.address());
        config.fleet.private_namespaces = vec!["ann".into()];
        config.access.api_keys_file = Some(keys.clone());
        config.access.open_introspection = true;
    })
    .await
    .shown("bob-key");
    std::fs::remove_file(keys).unwrap();
    let _worker = router.worker(FakeWorker::default()).await;
    let ask = async |key: &str, salt: Option<&str>, learn: bool| {
        let mut asked = Request::new(v1::GenerateRequest {
            cache_salt: salt.map(Into::into),
            speculation: Some(v1::Speculation {
                learn: Some(learn),
                ..Default::default()
            }),
            ..request(PROMPT)
        });
        let key = format!("Bearer {key}").parse().unwrap();
        asked.metadata_mut().insert("authorization", key);
        within(router.client().await.generate(asked)).await.unwrap();
    };
    ask("ann-key", None, true).await;
    ask("ann-key", Some("salt"), true).await;
    ask("bob-key", None, false).await;
    ask("bob-key", None, true).await;
    wait_for_metric(&router, "spectrie_fleet_published_total", |n| n == 1).await;
    let entries = redis.entries();
    assert_eq!(entries.len(), 1);
    let holds = |name: &[u8]| entries[0].windows(3).any(|bytes| bytes == name);
    assert!(holds(b"bob") && !holds(b"ann"));
}

#[tokio::test]
async fn what_one_router_forgets_is_forgotten_behind_all_and_leaves_the_bus() {
    let redis = FakeRedis::start();
    let (first, mut first_worker) = join(&redis).await;
    let (_second, mut second_worker) = join(&redis).await;
    ask(&first, PROMPT).await;
    taught(&mut second_worker).await;
    let holds_text = || redis.entries().iter().any(|bytes| is_text(bytes));
    assert!(holds_text());
    assert_eq!(forget(&first).await.failures, []);
    assert!(!holds_text());
    assert!(redis.fields()["default"] > 0);
    for worker in [&mut first_worker, &mut second_worker] {
        assert_eq!(asked_to_forget(worker).await, "default");
    }
    // What is learned after it is shared again, once the other router has forgotten.
    within(async {
        while num_taught(&heard(&mut second_worker)) == 0 {
            ask(&first, PROMPT).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn streams_that_were_cut_are_forgotten_behind_all_routers_too() {
    let redis = FakeRedis::start();
    let (first, _first_worker) = join(&redis).await;
    let second = TestRouter::with(|config| config.fleet.redis = Some(redis.address())).await;
    let _second_worker = second
        .worker(FakeWorker {
            freezes_after: Some(6),
            ..FakeWorker::default()
        })
        .await;
    let mut client = second.client().await;
    let cut = Box::pin(client.generate_stream(request(PROMPT)));
    let mut events = within(cut).await.unwrap().into_inner();
    let event = within(events.message()).await.unwrap().unwrap().event;
    let Some(Event::Started(started)) = event else {
        panic!("{event:?}")
    };
    drop(events);
    let mut resume = async || {
        let asked = v1::ResumeStreamRequest {
            request_id: started.request_id.clone(),
            resume_token: started.resume_token.clone().unwrap(),
            ..Default::default()
        };
        let resumed = Box::pin(client.resume_stream(asked));
        within(resumed).await.is_ok()
    };
    within(async { while !resume().await {} }).await;
    forget(&first).await;
    // Between a cut and its record there is a moment, too.
    let mut num_refused = 0;
    within(async {
        while num_refused < 5 {
            num_refused = if resume().await { 0 } else { num_refused + 1 };
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn router_that_was_away_while_redis_was_flushed_forgets_what_others_did() {
    let redis = FakeRedis::start();
    let (first, mut first_worker) = join(&redis).await;
    forget(&first).await;
    redis.set(Mood::Cut);
    redis.flush();
    // It comes back while nothing is there, and has text of before.
    let (away, mut away_worker) = join(&redis).await;
    ask(&away, PROMPT).await;
    heard(&mut first_worker);
    redis.set(Mood::Good);
    assert_eq!(asked_to_forget(&mut away_worker).await, "default");
    wait_for_metric(&away, "spectrie_fleet_connected", |n| n == 1).await;
    wait_for_metric(&first, "spectrie_fleet_connected", |n| n == 1).await;
    within(async {
        while redis.fields().is_empty() || redis.entries().iter().any(|bytes| is_text(bytes)) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    // Only text of after it reaches the first one.
    let answer = within(async {
        loop {
            let answer = ask(&away, "other text of more than seven tokens").await;
            tokio::time::sleep(Duration::from_millis(20)).await;
            if metric(&first, "spectrie_fleet_received_total").await > 0 {
                return answer;
            }
        }
    })
    .await;
    assert_eq!(taught(&mut first_worker).await, answer);
}

#[tokio::test]
async fn forgotten_namespaces_outlive_the_router_in_its_state_folder() {
    let redis = FakeRedis::start();
    let folder = std::env::temp_dir().join(format!("spectrie-state-{:x}", rand::random::<u64>()));
    let state = Some(folder.clone());
    let (router, worker) =
        join_with(&redis, |config| config.workers.state_dir = state.clone()).await;
    forget(&router).await;
    let generation = redis.fields()["default"];
    drop(worker);
    router.shutdown.request();
    router.ended().await;
    redis.flush();
    let (router, mut worker) =
        join_with(&redis, |config| config.workers.state_dir = state.clone()).await;
    within(async {
        while redis.fields().get("default") != Some(&generation) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    // Its worker forgot in the life before: what it learned since stays.
    ask(&router, PROMPT).await;
    assert!(
        !heard(&mut worker)
            .iter()
            .any(|message| matches!(message, Message::AdminCall(call)
        if matches!(call.call, Some(Call::ForgetNamespace(_)))))
    );
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn worker_that_joins_while_a_namespace_is_forgotten_forgets_it_too() {
    let redis = FakeRedis::start();
    let (router, _first_worker) = join(&redis).await;
    forget(&router).await;
    let late = FakeWorker::default();
    let is_mute = late.is_mute.clone();
    is_mute.store(true, Ordering::Relaxed);
    let mut late = router.dial(late);
    // It is asked before it is ready, and does not answer before the namespace is forgotten again.
    assert_eq!(asked_to_forget(&mut late).await, "default");
    let forgotten = forget(&router).await;
    assert_eq!((forgotten.workers, forgotten.failures), (1, vec![]));
    is_mute.store(false, Ordering::Relaxed);
    assert_eq!(asked_to_forget(&mut late).await, "default");
}

#[tokio::test]
async fn workers_that_forgot_keep_what_they_learn_while_another_one_hangs() {
    let redis = FakeRedis::start();
    let (router, mut worker) = join(&redis).await;
    let hanging = FakeWorker::default();
    let is_mute = hanging.is_mute.clone();
    let mut hanging = router.worker(hanging).await;
    is_mute.store(true, Ordering::Relaxed);
    let forgotten = forget_within(&router, Duration::from_secs(2)).await;
    assert_eq!(forgotten.failures.len(), 1, "{:?}", forgotten.failures);
    // The router asks on its own, and only the one that did not answer.
    for _ in 0..2 {
        asked_to_forget(&mut hanging).await;
    }
    is_mute.store(false, Ordering::Relaxed);
    // Text is shared again once both have forgotten.
    within(async {
        while metric(&router, "spectrie_fleet_published_total").await == 0 {
            ask(&router, PROMPT).await;
        }
    })
    .await;
    let is_forget = |message: &&Message| {
        matches!(message, Message::AdminCall(call)
            if matches!(call.call, Some(Call::ForgetNamespace(_))))
    };
    // Twice for the operator, and once for what the other one taught it until it forgot.
    assert_eq!(heard(&mut worker).iter().filter(is_forget).count(), 3);
}

#[tokio::test]
async fn hash_of_forgotten_namespaces_is_read_in_parts_and_garbage_goes() {
    let redis = FakeRedis::start();
    let (first, _first_worker) = join(&redis).await;
    forget(&first).await;
    let long = "x".repeat(5000);
    redis.put("no number", "x");
    redis.put(&long, "5");
    for index in 0..2_500 {
        redis.put(&format!("n{index}"), "");
    }
    redis.put("zoe", "5");
    let (_second, mut second_worker) = join(&redis).await;
    let mut asked = Vec::new();
    for _ in 0..2 {
        asked.push(asked_to_forget(&mut second_worker).await);
    }
    asked.sort();
    assert_eq!(asked, ["default", "zoe"]);
    assert!(!redis.has("no number") && !redis.has(&long));
    assert!(redis.has("default") && redis.has("zoe"));
}

#[tokio::test]
async fn while_redis_cannot_be_used_operators_hear_it_and_others_forget_later() {
    let redis = FakeRedis::start();
    let (first, _first_worker) = join(&redis).await;
    let (_second, mut second_worker) = join(&redis).await;
    redis.set(Mood::Cut);
    wait_for_metric(&first, "spectrie_fleet_connected", |n| n == 0).await;
    let forgotten = forget(&first).await;
    let [failure] = &forgotten.failures[..] else {
        panic!("{:?}", forgotten.failures)
    };
    assert_eq!((failure.worker.as_str(), forgotten.workers), ("fleet", 1));
    redis.set(Mood::Good);
    assert_eq!(asked_to_forget(&mut second_worker).await, "default");
}

#[tokio::test]
async fn no_mood_of_redis_stops_a_request_and_text_flows_again_after_it() {
    let redis = FakeRedis::start();
    let (first, _first_worker) = join(&redis).await;
    let (_second, mut second_worker) = join(&redis).await;
    let expected = ask(&first, PROMPT).await;
    assert_eq!(taught(&mut second_worker).await, expected);
    for mood in [Mood::Silent, Mood::Garbage, Mood::Full, Mood::Cut] {
        redis.set(mood);
        for _ in 0..3 {
            assert_eq!(ask(&first, PROMPT).await, expected, "{mood:?}");
        }
        if mood == Mood::Full {
            let dropped = "spectrie_fleet_dropped_total{reason=\"redis\"}";
            wait_for_metric(&first, dropped, |n| n > 0).await;
        }
        redis.set(Mood::Good);
        flows_again(&first, &mut second_worker).await;
    }
    redis.flush();
    flows_again(&first, &mut second_worker).await;
    redis.spoil();
    assert_eq!(ask(&first, PROMPT).await, expected);
    flows_again(&first, &mut second_worker).await;
    let is_spoiled = || {
        let keys = redis.keys.lock().unwrap();
        keys.values().any(|key| matches!(key, Key::Text))
    };
    within(async {
        while is_spoiled() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// Asks until the other router's worker is taught.
async fn flows_again(router: &TestRouter, worker: &mut TestWorker) {
    heard(worker);
    within(async {
        while num_taught(&heard(worker)) == 0 {
            ask(router, PROMPT).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn entries_of_other_versions_and_garbage_are_counted_and_passed_over() {
    let redis = FakeRedis::start();
    let (first, _first_worker) = join(&redis).await;
    let (second, mut second_worker) = join(&redis).await;
    ask(&first, PROMPT).await;
    taught(&mut second_worker).await;
    let mut later = redis.entries()[0].clone();
    later[4] += 1;
    let mut damaged = redis.entries()[0].clone();
    damaged[20] ^= 1;
    redis.add("e", &later);
    redis.add("e", &damaged);
    redis.add("e", b"");
    redis.add("\u{0}", b"\xff\xfe");
    let answer = ask(&first, "a prompt after those").await;
    assert_eq!(taught(&mut second_worker).await, answer);
    let dropped = |reason: &str| format!("spectrie_fleet_dropped_total{{reason=\"{reason}\"}}");
    assert_eq!(metric(&second, &dropped("version")).await, 1);
    assert_eq!(metric(&second, &dropped("damaged")).await, 3);
}

#[tokio::test]
async fn stream_that_takes_no_more_entries_begins_again() {
    let redis = FakeRedis::start();
    let (first, _first_worker) = join(&redis).await;
    let (_second, mut second_worker) = join(&redis).await;
    ask(&first, PROMPT).await;
    taught(&mut second_worker).await;
    for key in redis.keys.lock().unwrap().values_mut() {
        if let Key::Stream(entries, last) = key {
            // As after Redis's clock went back, or a restart without its data.
            entries.clear();
            *last = (1, 0);
        }
    }
    flows_again(&first, &mut second_worker).await;
}
