//! Operating draft memory: every worker is asked, answers are merged, failures are named.

use std::time::Duration;

use crate::support::fake_worker::FakeWorker;
use crate::support::{Message, TestRouter, within};
use spectrie_proto::v1;
use spectrie_proto::v1::admin_client::AdminClient;
use spectrie_router::RouterConfig;
use spectrie_router::app;
use spectrie_router::{RouterError, Shutdown};
use tokio_stream::StreamExt as _;
use tonic::{Code, Request, Status};
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_types::StatusExt as _;

/// What a caller gives workers, of which the router keeps a second for its answer.
const SHORT: Duration = Duration::from_secs(5);

fn add(corpus: &str) -> v1::AddCorpusRequest {
    v1::AddCorpusRequest {
        corpus: corpus.into(),
        ..Default::default()
    }
}

async fn corpora(router: &TestRouter) -> Vec<v1::Corpus> {
    let mut admin = router.admin().await;
    let listed = within(admin.list_corpora(v1::ListCorporaRequest::default()));
    listed.await.unwrap().into_inner().corpora
}

fn silent() -> FakeWorker {
    FakeWorker {
        is_silent: true,
        ..FakeWorker::default()
    }
}

#[tokio::test]
async fn corpus_reaches_every_worker_and_those_that_join_later() {
    let router = TestRouter::start().await;
    let _first = router.worker(FakeWorker::default()).await;
    let mut admin = router.admin().await;
    let readers = v1::Namespaces {
        names: vec!["ann".into()],
    };
    let asked = v1::AddCorpusRequest {
        readers: Some(readers.clone()),
        ..add("code")
    };
    let added = within(admin.add_corpus(asked)).await.unwrap().into_inner();
    assert_eq!(added.failures, []);
    let corpus = added.corpus.unwrap();
    assert_eq!((corpus.num_tokens, corpus.workers), (10, 1));
    assert_eq!(corpus.readers.as_ref(), Some(&readers));

    let _second = router.worker(FakeWorker::default()).await;
    let merged = within(async {
        loop {
            let [corpus] = &corpora(&router).await[..] else {
                panic!("not one corpus")
            };
            if corpus.workers == 2 {
                return corpus.clone();
            }
        }
    })
    .await;
    assert_eq!((merged.num_tokens, merged.accepted_tokens), (10, 6));
    assert_eq!(merged.readers, Some(readers));

    let remove = v1::RemoveCorpusRequest {
        name: "code".into(),
        ..Default::default()
    };
    let removed = within(admin.remove_corpus(remove.clone())).await.unwrap();
    assert_eq!(removed.into_inner().workers, 2);
    let status = within(admin.remove_corpus(remove)).await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::NotFound, "no corpus code")
    );
    let details = status.get_error_details();
    assert_eq!(details.error_info().unwrap().reason, "NOT_FOUND");
    assert_eq!(details.resource_info().unwrap().resource_name, "code");
    assert_eq!(corpora(&router).await, []);
}

#[tokio::test]
async fn refusals_of_all_workers_keep_their_code() {
    let router = TestRouter::start().await;
    let _worker = router.worker(FakeWorker::default()).await;
    let mut admin = router.admin().await;
    let mut refusal = async |request| {
        let status: Status = within(admin.add_corpus(request)).await.unwrap_err();
        (status.code(), status.message().to_owned())
    };
    assert_eq!(
        refusal(add("missing")).await,
        (Code::NotFound, "no corpus missing".to_owned())
    );
    assert_eq!(refusal(add("")).await.0, Code::InvalidArgument);
    let nobody = v1::AddCorpusRequest {
        readers: Some(v1::Namespaces::default()),
        ..add("code")
    };
    assert_eq!(refusal(nobody).await.0, Code::InvalidArgument);
    let mut admin = router.admin().await;
    within(admin.add_corpus(add("code"))).await.unwrap();
    let twice = within(admin.add_corpus(add("code"))).await.unwrap_err();
    assert_eq!(twice.code(), Code::AlreadyExists);
    let unsaved = within(admin.save_snapshot(v1::SaveSnapshotRequest::default()));
    assert_eq!(unsaved.await.unwrap_err().code(), Code::FailedPrecondition);
    let other = v1::ListCorporaRequest {
        model: Some("other".into()),
    };
    let unknown = within(admin.list_corpora(other)).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
    assert!(unknown.message().contains("fake"), "{}", unknown.message());
}

#[tokio::test]
async fn worker_that_does_not_answer_is_reported_and_not_waited_for() {
    let router = TestRouter::start().await;
    let _good = router.worker(FakeWorker::default()).await;
    let _silent = router.worker(silent()).await;
    let mut admin = router.admin().await;
    let mut request = Request::new(v1::ForgetNamespaceRequest {
        name: "default".into(),
        ..Default::default()
    });
    request.set_timeout(SHORT);
    let forgotten = within(admin.forget_namespace(request)).await.unwrap();
    let forgotten = forgotten.into_inner();
    assert_eq!(forgotten.workers, 1);
    let [failure] = &forgotten.failures[..] else {
        panic!("{:?}", forgotten.failures)
    };
    assert_eq!(failure.worker, "w2");
    assert_eq!(failure.code, Code::DeadlineExceeded as u32);
}

#[tokio::test]
async fn forgetting_comes_behind_text_that_workers_were_still_teaching_each_other() {
    let router = TestRouter::start().await;
    let mut workers = [
        router.worker(FakeWorker::default()).await,
        router.worker(FakeWorker::default()).await,
    ];
    for _ in 0..2 {
        let mut client = router.client().await;
        within(client.generate(crate::support::request("abc")))
            .await
            .unwrap();
    }
    let mut admin = router.admin().await;
    let forget = v1::ForgetNamespaceRequest {
        name: "default".into(),
        ..Default::default()
    };
    let forgotten = within(admin.forget_namespace(forget)).await.unwrap();
    assert_eq!(forgotten.into_inner().workers, 2);
    for worker in &mut workers {
        let mut heard = Vec::new();
        while heard.iter().filter(|kind| **kind == "forget").count() < 2 {
            heard.push(match worker.hear().await {
                Message::Learn(_) => "learn",
                Message::AdminCall(_) => "forget",
                _ => "other",
            });
        }
        assert!(heard.contains(&"learn"), "{heard:?}");
    }
}

#[tokio::test]
async fn silence_of_all_workers_is_a_deadline_and_a_lost_worker_is_unavailable() {
    let router = TestRouter::start().await;
    let silent = router.worker(silent()).await;
    let mut admin = router.admin().await;
    let mut request = Request::new(v1::ListNamespacesRequest::default());
    request.set_timeout(SHORT);
    let status = within(admin.list_namespaces(request)).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert!(
        status.message().contains("no answer"),
        "{}",
        status.message()
    );

    let asking = tokio::spawn(async move {
        admin
            .list_namespaces(v1::ListNamespacesRequest::default())
            .await
    });
    let mut silent = silent;
    within(async {
        for _ in 0..2 {
            assert!(matches!(silent.hear().await, Message::AdminCall(_)));
        }
    })
    .await;
    silent.kill();
    let status = within(asking).await.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
}

#[tokio::test]
async fn stats_are_those_that_each_worker_told_last() {
    let router = TestRouter::start().await;
    let _first = router.worker(FakeWorker::default()).await;
    let _second = router.worker(FakeWorker::default()).await;
    within(
        router
            .client()
            .await
            .generate(crate::support::request("abc")),
    )
    .await
    .unwrap();
    let mut admin = router.admin().await;
    let workers = within(async {
        loop {
            let stats = admin.get_stats(v1::GetStatsRequest::default()).await;
            let workers = stats.unwrap().into_inner().workers;
            if workers.iter().any(|worker| worker.steps > 0) {
                return workers;
            }
        }
    })
    .await;
    let names: Vec<_> = workers
        .iter()
        .map(|worker| worker.worker.as_str())
        .collect();
    assert_eq!(names, ["w1", "w2"]);
    assert!(workers.iter().all(|worker| worker.net_gain.is_none()));
}

#[tokio::test]
async fn admin_is_listed_on_its_own_listener_and_absent_from_the_public_one() {
    let router = TestRouter::start().await;
    let mut reflection = ServerReflectionClient::new(router.admin_channel().await);
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let answers = within(reflection.server_reflection_info(tokio_stream::once(request)));
    let mut answers = answers.await.unwrap().into_inner();
    let answer = within(answers.next()).await.unwrap().unwrap();
    let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else {
        panic!("no list")
    };
    let names: Vec<_> = list.service.into_iter().map(|one| one.name).collect();
    assert!(names.contains(&"spectrie.v1.Admin".to_owned()), "{names:?}");
    let mut public = AdminClient::new(router.channel().await);
    let status = within(public.list_corpora(v1::ListCorporaRequest::default()));
    assert_eq!(status.await.unwrap_err().code(), Code::Unimplemented);
}

#[tokio::test]
async fn tcp_of_other_machines_needs_the_token() {
    let mut config = RouterConfig::default();
    config.listen.http = None;
    config.listen.grpc = None;
    let folder = std::env::temp_dir().join(format!("spectrie-{:x}", rand::random::<u64>()));
    std::fs::create_dir(&folder).unwrap();
    config.listen.worker = format!("unix:{}", folder.join("worker.sock").display());
    config.listen.admin = Some("0.0.0.0:0".into());
    let refused = within(app::serve(config, |_| {}, Shutdown::new())).await;
    let Err(RouterError::Config(message)) = refused else {
        panic!("{refused:?}")
    };
    assert!(message.contains("--admin-token-file"), "{message}");

    let file = folder.join("token");
    std::fs::write(&file, "secret\n").unwrap();
    let router = TestRouter::with(|config| {
        config.listen.admin = Some("127.0.0.1:0".into());
        config.access.admin_token_file = Some(file);
    })
    .await;
    let _worker = router.worker(FakeWorker::default()).await;
    let mut admin = router.admin().await;
    let status = within(admin.list_corpora(v1::ListCorporaRequest::default())).await;
    assert_eq!(status.unwrap_err().code(), Code::Unauthenticated);
    let mut request = Request::new(v1::ListCorporaRequest::default());
    let token = "Bearer secret".parse().unwrap();
    request.metadata_mut().insert("authorization", token);
    assert!(within(admin.list_corpora(request)).await.is_ok());
    std::fs::remove_dir_all(folder).unwrap();
}
