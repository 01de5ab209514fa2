//! Two tenants at one router: what one of them does reaches the other in no way.

use crate::support::fake_worker::FakeWorker;
use crate::support::{Message, TestRouter, TestWorker, request, within};
use spectrie_proto::v1;
use spectrie_proto::v1::inference_client::InferenceClient;
use spectrie_proto::worker_v1::Start;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};
use tokio_stream::StreamExt as _;
use tonic::transport::Channel;
use tonic::{Code, Request, Status, Streaming};
use tonic_types::StatusExt as _;

const KEYS: &str = "key-of-ann ann\nkey-of-bob bob\n";

type Events = Streaming<v1::GenerateEvent>;

async fn start(
    router: &TestRouter,
    tenant: &str,
    asked: v1::GenerateRequest,
) -> Result<Events, Status> {
    start_with(router.client().await, tenant, asked).await
}

async fn start_with(
    mut client: InferenceClient<Channel>,
    tenant: &str,
    asked: v1::GenerateRequest,
) -> Result<Events, Status> {
    let mut asked = Request::new(asked);
    let key = format!("Bearer key-of-{tenant}").parse().unwrap();
    asked.metadata_mut().insert("authorization", key);
    let stream = within(client.generate_stream(asked)).await?;
    Ok(stream.into_inner())
}

async fn heard_start(worker: &mut TestWorker) -> Start {
    match worker.hear().await {
        Message::Start(start) => start,
        other => panic!("no start: {other:?}"),
    }
}

/// A router with keys, and a worker that takes requests and never steps.
async fn frozen() -> (TestRouter, TestWorker) {
    let router = TestRouter::with_keys(KEYS).await;
    let worker = router
        .worker(FakeWorker {
            is_frozen: true,
            ..FakeWorker::default()
        })
        .await;
    (router, worker)
}

#[tokio::test]
async fn id_of_one_tenants_request_is_free_for_another() {
    let (router, mut worker) = frozen().await;
    let named = || v1::GenerateRequest {
        request_id: Some("job-1".into()),
        ..request("abc")
    };
    let of_ann = start(&router, "ann", named()).await.unwrap();
    let _of_bob = start(&router, "bob", named()).await.unwrap();
    let twice = start(&router, "bob", named()).await.unwrap_err();
    assert_eq!(twice.code(), Code::AlreadyExists);
    let first = heard_start(&mut worker).await;
    let second = heard_start(&mut worker).await;
    assert_eq!(first.request_id, "ann/job-1.0");
    assert_eq!(second.request_id, "bob/job-1.0");
    drop(of_ann);
    let Message::Cancel(cancel) = worker.hear().await else {
        panic!("no cancel")
    };
    assert_eq!(cancel.request_id, first.request_id);
}

#[tokio::test]
async fn flood_of_one_tenant_refuses_no_other() {
    let (router, mut worker) = frozen().await;
    let mut flood = Vec::new();
    for _ in 0..40 {
        flood.push(start(&router, "ann", request("abc")).await.unwrap());
    }
    let full = start(&router, "ann", request("abc")).await.unwrap_err();
    assert_eq!(full.code(), Code::ResourceExhausted);
    assert!(full.message().contains("allowed: up to 40"), "{full}");
    let mut share = Vec::new();
    for _ in 0..20 {
        share.push(start(&router, "bob", request("abc")).await.unwrap());
    }
    for tenant in ["ann", "bob"] {
        let full = start(&router, tenant, request("abc")).await.unwrap_err();
        let allowed = "allowed: up to 20 while others ask too, of 40 in all";
        assert!(full.message().contains(allowed), "{full}");
        assert!(full.get_error_details().retry_info().is_some());
    }
    // Above its share a tenant gets no new place for one that it gave back.
    flood.truncate(20);
    for _ in 0..60 {
        heard_start(&mut worker).await;
    }
    for _ in 0..20 {
        assert!(matches!(worker.hear().await, Message::Cancel(_)));
    }
    assert!(start(&router, "ann", request("abc")).await.is_err());
    flood.truncate(19);
    assert!(matches!(worker.hear().await, Message::Cancel(_)));
    assert!(start(&router, "ann", request("abc")).await.is_ok());
}

#[tokio::test]
async fn requests_of_one_tenant_that_wait_for_a_worker_keep_no_other_out() {
    let router = TestRouter::keyed(KEYS, |config| {
        config.limits.max_waiting = 4;
        config.workers.wait_s = 20.0;
    })
    .await;
    router.worker(FakeWorker::default()).await.kill();
    within(async {
        while router.num_workers("fake").await > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // Each line is full once one more was refused.
    let flood = wait_in_line(&router, "ann", 4).await;
    let others = wait_in_line(&router, "bob", 2).await;
    let _worker = router.worker(FakeWorker::default()).await;
    for waiting in flood.into_iter().chain(others) {
        assert!(within(waiting).await.unwrap().is_ok());
    }
}

/// Lets `allowed` requests of a tenant wait, and one more be refused.
async fn wait_in_line(
    router: &TestRouter,
    tenant: &'static str,
    allowed: usize,
) -> Vec<JoinHandle<Result<Events, Status>>> {
    let mut asked = JoinSet::new();
    let mut tasks = Vec::new();
    for _ in 0..=allowed {
        let client = router.client().await;
        let (sender, refused) = oneshot::channel();
        tasks.push(tokio::spawn(async move {
            let result = start_with(client, tenant, request("abc")).await;
            if let Err(error) = &result {
                let _ = sender.send(error.code());
            }
            result
        }));
        asked.spawn(refused);
    }
    let refused = within(asked.join_next()).await.unwrap().unwrap();
    assert_eq!(refused, Ok(Code::ResourceExhausted));
    tasks.retain(|task| !task.is_finished());
    assert_eq!(tasks.len(), allowed);
    tasks
}

#[tokio::test]
async fn salts_divide_a_tenants_memory_and_its_learned_text() {
    let router = TestRouter::with_keys(KEYS).await;
    let mut first = router.worker(FakeWorker::default()).await;
    let mut second = router.worker(FakeWorker::default()).await;
    let mut namespaces = std::collections::BTreeSet::new();
    for (tenant, salt) in [
        ("ann", None),
        ("ann", Some("s")),
        ("ann", Some("t")),
        ("bob", Some("s")),
    ] {
        let asked = v1::GenerateRequest {
            cache_salt: salt.map(Into::into),
            ..request("abc")
        };
        let events = start(&router, tenant, asked).await.unwrap();
        within(events.collect::<Vec<_>>()).await;
        // One worker runs it, the other one learns its answer.
        let heard = [first.hear().await, second.hear().await];
        let started = heard.iter().find_map(|message| match message {
            Message::Start(start) => Some(start.clone()),
            _ => None,
        });
        let learned = heard.iter().find_map(|message| match message {
            Message::Learn(learn) => Some(learn.namespace.clone()),
            _ => None,
        });
        let started = started.unwrap();
        assert_eq!(started.tenant.as_deref(), Some(tenant));
        assert_eq!(learned.as_ref(), Some(&started.namespace));
        assert!(started.namespace.split('/').next() == Some(tenant));
        assert!(namespaces.insert(started.namespace));
    }
}

#[tokio::test]
async fn equal_cache_keys_find_the_same_worker_and_share_no_other_memory() {
    let router = TestRouter::with_keys(KEYS).await;
    let mut workers = Vec::new();
    for _ in 0..3 {
        workers.push(router.worker(FakeWorker::default()).await);
    }
    let mut used = [0; 3];
    for key in 0..12 {
        let mut starts = [0; 3];
        for _ in 0..4 {
            let asked = v1::GenerateRequest {
                prompt_cache_key: Some(format!("conversation {key}")),
                speculation: Some(v1::Speculation {
                    learn: Some(false),
                    ..Default::default()
                }),
                ..request("abc")
            };
            let events = start(&router, "ann", asked).await.unwrap();
            within(events.collect::<Vec<_>>()).await;
        }
        for (worker, starts) in workers.iter_mut().zip(&mut starts) {
            while let Ok(message) = worker.heard.try_recv() {
                if let Some(Message::Start(start)) = message.message {
                    assert_eq!(start.namespace, "ann");
                    *starts += 1;
                }
            }
        }
        let place = starts.iter().position(|starts| *starts == 4);
        used[place.expect("all requests of a key at one worker")] += 1;
    }
    assert!(
        used.iter().filter(|keys| **keys > 0).count() > 1,
        "{used:?}"
    );
}
