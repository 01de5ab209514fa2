//! Corpora that operators add outlive the router, beside those that workers open by themselves.

use std::path::{Path, PathBuf};

use crate::support::fake_worker::FakeWorker;
use crate::support::{TestRouter, TestWorker, within};
use spectrie_proto::v1;
use tonic::{Code, Status};

/// A state folder that ends with the test.
struct State(PathBuf);

impl State {
    fn new() -> Self {
        let name = format!("spectrie-{:x}", rand::random::<u64>());
        Self(std::env::temp_dir().join(name))
    }

    fn file(&self) -> PathBuf {
        self.0.join("corpora.json")
    }

    async fn start(&self) -> (TestRouter, TestWorker) {
        self.start_with(FakeWorker::default()).await
    }

    async fn start_with(&self, worker: FakeWorker) -> (TestRouter, TestWorker) {
        let folder: &Path = &self.0;
        let router = TestRouter::with(|config| {
            config.workers.state_dir = Some(folder.to_owned());
        })
        .await;
        let worker = router.worker(worker).await;
        (router, worker)
    }
}

impl Drop for State {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn stop(router: TestRouter) {
    router.shutdown.request();
    router.shutdown.request();
    router.ended().await;
}

async fn add(router: &TestRouter, corpus: &str, readers: Option<&str>) {
    let request = v1::AddCorpusRequest {
        corpus: corpus.into(),
        readers: readers.map(|name| v1::Namespaces {
            names: vec![name.into()],
        }),
        ..Default::default()
    };
    within(router.admin().await.add_corpus(request))
        .await
        .unwrap();
}

async fn remove(router: &TestRouter, name: &str) -> Result<u32, Status> {
    let request = v1::RemoveCorpusRequest {
        name: name.into(),
        ..Default::default()
    };
    let removed = within(router.admin().await.remove_corpus(request)).await?;
    Ok(removed.into_inner().workers)
}

/// Name and readers of the corpora, once there are `count`.
async fn corpora(router: &TestRouter, count: usize) -> Vec<(String, Option<Vec<String>>)> {
    let mut admin = router.admin().await;
    within(async {
        loop {
            let listed = admin.list_corpora(v1::ListCorporaRequest::default()).await;
            let corpora = listed.unwrap().into_inner().corpora;
            if corpora.len() == count {
                let readers = |one: v1::Corpus| one.readers.map(|readers| readers.names);
                let named = corpora
                    .into_iter()
                    .map(|one| (one.name.clone(), readers(one)));
                return named.collect();
            }
        }
    })
    .await
}

#[tokio::test]
async fn added_corpora_are_there_after_a_restart_and_removed_ones_are_not() {
    let state = State::new();
    let (router, _worker) = state.start().await;
    add(&router, "code", Some("ann")).await;
    add(&router, "text", None).await;
    add(&router, "old", None).await;
    assert_eq!(remove(&router, "old").await.unwrap(), 1);
    stop(router).await;

    let (router, _worker) = state.start().await;
    let expected = [
        ("code".to_owned(), Some(vec!["ann".to_owned()])),
        ("text".to_owned(), None),
    ];
    assert_eq!(corpora(&router, 2).await, expected);
    assert_eq!(remove(&router, "code").await.unwrap(), 1);
    stop(router).await;

    let (router, _worker) = state.start().await;
    assert_eq!(corpora(&router, 1).await, expected[1..]);
}

#[tokio::test]
async fn without_a_folder_nothing_is_remembered() {
    let router = TestRouter::start().await;
    let _worker = router.worker(FakeWorker::default()).await;
    add(&router, "code", None).await;
    stop(router).await;
    let router = TestRouter::start().await;
    let _worker = router.worker(FakeWorker::default()).await;
    add(&router, "text", None).await;
    assert_eq!(corpora(&router, 1).await[0].0, "text");
}

#[tokio::test]
async fn corpus_that_a_worker_opens_by_itself_wins_over_the_one_added_before() {
    let state = State::new();
    let (router, _worker) = state.start().await;
    add(&router, "code", Some("ann")).await;
    add(&router, "text", None).await;
    stop(router).await;
    let own = FakeWorker {
        corpora: vec!["code".into()],
        ..FakeWorker::default()
    };
    let (router, _worker) = state.start_with(own).await;
    let expected = [("code".to_owned(), None), ("text".to_owned(), None)];
    assert_eq!(corpora(&router, 2).await, expected);
}

#[tokio::test]
async fn corpus_whose_file_has_gone_is_left_out_until_it_is_removed() {
    let state = State::new();
    let (router, _worker) = state.start().await;
    add(&router, "code", None).await;
    stop(router).await;
    let kept = std::fs::read_to_string(state.file()).unwrap();
    let moved = kept.replace(r#""corpus": "code""#, r#""corpus": "missing""#);
    assert_ne!(kept, moved);
    std::fs::write(state.file(), moved).unwrap();

    let (router, _worker) = state.start().await;
    add(&router, "text", None).await;
    assert_eq!(corpora(&router, 1).await[0].0, "text");
    assert!(
        std::fs::read_to_string(state.file())
            .unwrap()
            .contains("missing")
    );
    assert_eq!(remove(&router, "code").await.unwrap(), 0);
    assert!(
        !std::fs::read_to_string(state.file())
            .unwrap()
            .contains("missing")
    );
    assert_eq!(
        remove(&router, "code").await.unwrap_err().code(),
        Code::NotFound
    );
}

#[tokio::test]
async fn damaged_file_is_started_without_and_replaced() {
    let state = State::new();
    std::fs::create_dir(&state.0).unwrap();
    std::fs::write(state.file(), b"\0damaged").unwrap();
    let (router, _worker) = state.start().await;
    add(&router, "code", None).await;
    stop(router).await;
    let (router, _worker) = state.start().await;
    assert_eq!(corpora(&router, 1).await[0].0, "code");
}
