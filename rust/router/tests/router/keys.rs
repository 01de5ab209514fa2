//! What a key allows, over gRPC, and a keys file that changes while the router serves.

use std::path::PathBuf;

use crate::support::fake_worker::FakeWorker;
use crate::support::{TestRouter, TestWorker, request, within};
use sha2::{Digest as _, Sha256};
use spectrie_proto::v1;
use tonic::{Code, Request, Status};
use tonic_types::StatusExt as _;

/// An entry for `key`, with further fields.
fn entry(key: &str, tenant: &str, fields: &str) -> String {
    let digest = Sha256::digest(key);
    format!("[[keys]]\nsha256 = \"{digest:x}\"\ntenant = \"{tenant}\"\n{fields}\n")
}

/// A router with one unlimited key, `admin`, and one that `fields` limit, `limited`.
async fn limited(fields: &str, worker: FakeWorker) -> (TestRouter, TestWorker) {
    let text = entry("admin", "ann", "") + &entry("limited", "bob", fields);
    let router = TestRouter::keyed(&text, |_| {}).await.shown("admin");
    let worker = router.worker(worker).await;
    (router, worker)
}

fn keyed<T>(key: &str, message: T) -> Request<T> {
    let mut asked = Request::new(message);
    let key = format!("Bearer {key}").parse().unwrap();
    asked.metadata_mut().insert("authorization", key);
    asked
}

async fn ask(router: &TestRouter, key: &str, asked: v1::GenerateRequest) -> Result<(), Status> {
    let answer = within(router.client().await.generate(keyed(key, asked))).await;
    answer.map(drop)
}

fn reason(status: &Status) -> String {
    let details = status.get_error_details();
    details
        .error_info()
        .map_or_else(String::new, |info| info.reason.clone())
}

#[tokio::test]
async fn models_that_a_key_may_not_use_are_closed_and_not_shown() {
    let (router, _worker) = limited("models = [\"other\"]", FakeWorker::default()).await;
    let _other = router
        .worker(FakeWorker {
            model: "other".into(),
            ..FakeWorker::default()
        })
        .await;
    let of_model = |model: &str| v1::GenerateRequest {
        model: Some(model.into()),
        ..request("abc")
    };
    assert!(ask(&router, "limited", of_model("other")).await.is_ok());
    for model in ["fake", "not-served"] {
        let status = ask(&router, "limited", of_model(model)).await.unwrap_err();
        assert_eq!(status.code(), Code::PermissionDenied);
        assert!(status.message().ends_with("allowed: other"), "{status}");
    }
    let long = of_model(&"m".repeat(1 << 20));
    let status = ask(&router, "limited", long).await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied);
    assert!(status.message().contains("(1048576 bytes)"), "{status}");
    let tokenizing = v1::TokenizeRequest {
        model: Some("fake".into()),
        text: "abc".into(),
        ..Default::default()
    };
    let mut client = router.client().await;
    let status = within(client.tokenize(keyed("limited", tokenizing))).await;
    assert_eq!(status.unwrap_err().code(), Code::PermissionDenied);
    let listed = within(client.list_models(keyed("limited", v1::ListModelsRequest {}))).await;
    let names: Vec<_> = listed.unwrap().into_inner().models;
    assert_eq!(
        names.iter().map(|one| &one.name).collect::<Vec<_>>(),
        ["other"]
    );
}

#[tokio::test]
async fn model_that_a_request_does_not_name_is_closed_too() {
    let (router, _worker) = limited("models = [\"other\"]", FakeWorker::default()).await;
    let status = ask(&router, "limited", request("abc")).await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied);
}

#[tokio::test]
async fn priority_above_a_keys_highest_is_refused() {
    let (router, _worker) = limited("max_priority = 2", FakeWorker::default()).await;
    let of_priority = |priority| v1::GenerateRequest {
        priority: Some(priority),
        ..request("abc")
    };
    assert!(ask(&router, "limited", of_priority(2)).await.is_ok());
    let status = ask(&router, "limited", of_priority(3)).await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied);
    assert!(status.message().contains("given 3; allowed"), "{status}");
    assert!(ask(&router, "admin", of_priority(3)).await.is_ok());
}

#[tokio::test]
async fn used_up_limits_are_rate_limited_with_a_time_and_touch_no_other_key() {
    for fields in ["requests_per_minute = 1", "tokens_per_minute = 4"] {
        let (router, _worker) = limited(fields, FakeWorker::default()).await;
        assert!(ask(&router, "limited", request("abc")).await.is_ok());
        let status = ask(&router, "limited", request("abc")).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{fields}");
        assert_eq!(reason(&status), "RATE_LIMITED", "{fields}");
        let details = status.get_error_details();
        assert!(details.retry_info().is_some() && details.quota_failure().is_some());
        assert!(ask(&router, "admin", request("abc")).await.is_ok());
    }
}

#[tokio::test]
async fn only_so_many_requests_of_a_key_run_at_once() {
    let worker = FakeWorker {
        is_frozen: true,
        ..FakeWorker::default()
    };
    let (router, _worker) = limited("requests_at_once = 1", worker).await;
    let mut client = router.client().await;
    let running = within(client.generate_stream(keyed("limited", request("abc")))).await;
    let status = ask(&router, "limited", request("abc")).await.unwrap_err();
    assert_eq!(reason(&status), "RATE_LIMITED");
    assert!(
        status.message().contains("allowed: up to 1 at once"),
        "{status}"
    );
    drop(running);
    within(async {
        let mut client = router.client().await;
        while client
            .generate_stream(keyed("limited", request("abc")))
            .await
            .is_err()
        {}
    })
    .await;
}

/// A keys file that stays where it is.
struct File(PathBuf);

impl File {
    fn write(&self, text: &str) {
        std::fs::write(&self.0, text).unwrap();
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Waits until a key is known, or no longer.
async fn until_known(router: &TestRouter, key: &str, known: bool) {
    let mut client = router.client().await;
    within(async {
        loop {
            let listed = client
                .list_models(keyed(key, v1::ListModelsRequest {}))
                .await;
            if listed.is_ok() == known {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn changed_file_is_in_force_while_serving_and_a_bad_one_is_not() {
    let name = format!("spectrie-keys-{:x}", rand::random::<u64>());
    let file = File(std::env::temp_dir().join(name));
    file.write("first ann\n");
    let path = file.0.clone();
    let router = TestRouter::with(|config| config.access.api_keys_file = Some(path)).await;
    until_known(&router, "first", true).await;
    file.write("second ann\n");
    until_known(&router, "second", true).await;
    until_known(&router, "first", false).await;
    file.write("third\n");
    // Whatever is read of a bad file in between, the keys before stay: the next good file shows that
    // it was looked at.
    tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
    until_known(&router, "second", true).await;
    file.write(&(entry("third", "ann", "") + &entry("fourth", "bob", "expires = 2020-01-01")));
    until_known(&router, "third", true).await;
    until_known(&router, "fourth", false).await;
}
