//! Who may call and how much may arrive, decided before a body has come.

use prost::Message as _;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt as _;

use crate::support::fake_worker::FakeWorker;
use crate::support::half_call::{HalfCaller, code, half_message};
use crate::support::{TestRouter, keys_file, request, within};

/// Every method of the public services, by path.
fn methods(descriptors: &[u8]) -> Vec<String> {
    let set = prost_types::FileDescriptorSet::decode(descriptors).unwrap();
    let mut paths = Vec::new();
    for file in &set.file {
        for service in &file.service {
            for method in &service.method {
                paths.push(format!(
                    "/{}.{}/{}",
                    file.package(),
                    service.name(),
                    method.name()
                ));
            }
        }
    }
    paths
}

#[tokio::test]
async fn every_method_is_denied_without_a_key_before_its_body_has_come() {
    let keys = keys_file("sesame team\n");
    let router = TestRouter::with(|config| config.access.api_keys_file = Some(keys)).await;
    let mut caller = HalfCaller::connect(router.bound.grpc.as_deref().unwrap()).await;
    let mut paths = methods(spectrie_proto::FILE_DESCRIPTOR_SET);
    assert!(paths.len() >= 6, "{paths:?}");
    paths.extend(["/made.Up/Call".into(), "/".into()]);
    for path in paths {
        for key in [None, Some("wrong")] {
            let half = half_message(4 << 20, 1000);
            let headers = within(caller.call(&path, key, half)).await;
            assert_eq!(code(&headers), Some(Code::Unauthenticated), "{path}");
        }
    }
    let half = half_message(4 << 20, 1000);
    let unknown = within(caller.call("/made.Up/Call", Some("sesame"), half)).await;
    assert_eq!(code(&unknown), Some(Code::Unimplemented));
}

#[tokio::test]
async fn every_method_of_operators_is_denied_without_their_token_before_its_body_has_come() {
    let token = keys_file("operator");
    let router = TestRouter::with(|config| {
        config.listen.admin = Some("127.0.0.1:0".into());
        config.access.admin_token_file = Some(token);
    })
    .await;
    let mut caller = HalfCaller::connect(router.bound.admin.as_deref().unwrap()).await;
    let paths = methods(spectrie_proto::ADMIN_FILE_DESCRIPTOR_SET);
    assert!(paths.len() >= 7, "{paths:?}");
    for path in paths {
        let headers = within(caller.call(&path, None, half_message(1 << 20, 1000))).await;
        assert_eq!(code(&headers), Some(Code::Unauthenticated), "{path}");
    }
}

#[tokio::test]
async fn unfinished_bodies_are_refused_beyond_their_bound_and_others_go_on() {
    let router = TestRouter::with(|config| config.limits.max_unfinished_bytes = 1 << 20).await;
    let _worker = router.worker(FakeWorker::default()).await;
    let caller = HalfCaller::connect(router.bound.grpc.as_deref().unwrap()).await;
    let mut refused = Vec::new();
    let mut halves = tokio::task::JoinSet::new();
    for _ in 0..60 {
        let mut caller = caller.clone();
        halves.spawn(async move {
            let path = "/spectrie.v1.Inference/Generate";
            caller.call(path, None, half_message(4 << 20, 60_000)).await
        });
    }
    // 14 of them fill the bound.
    while refused.len() < 46 {
        refused.push(within(halves.join_next()).await.unwrap().unwrap());
    }
    for headers in &refused {
        let status = tonic::Status::from_header_map(headers).unwrap();
        assert_eq!(status.code(), Code::ResourceExhausted);
        let details = status.get_error_details();
        assert_eq!(details.error_info().unwrap().reason, "QUEUE_FULL");
        assert!(details.retry_info().is_some());
    }
    drop((halves, caller));
    let mut client = router.client().await;
    within(async {
        while client.generate(request("abc")).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// Begins calls of `path` that never end, as many as `count`; the codes of those that are answered,
/// once `refused` are.
async fn half_calls(caller: &HalfCaller, path: &'static str, count: usize, refused: usize) {
    let mut halves = tokio::task::JoinSet::new();
    for _ in 0..count {
        let mut caller = caller.clone();
        halves.spawn(async move { caller.call(path, None, half_message(1000, 10)).await });
    }
    for _ in 0..refused {
        let headers = within(halves.join_next()).await.unwrap().unwrap();
        let status = tonic::Status::from_header_map(&headers).unwrap();
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert!(status.message().contains("of this connection"), "{status}");
    }
    // The others stay as they are, until their connection ends.
    halves.detach_all();
}

#[tokio::test]
async fn half_calls_of_one_connection_leave_room_for_those_of_others() {
    let router = TestRouter::with(|config| config.limits.max_message_bytes = 16 << 10).await;
    let _worker = router.worker(FakeWorker::default()).await;
    let address = router.bound.grpc.as_deref().unwrap();
    let caller = HalfCaller::connect(address).await;
    // Half of 4 MiB for health, and of 64 MiB for all else; 12 KiB and what came count of each.
    half_calls(&caller, "/grpc.health.v1.Health/Check", 250, 80).await;
    half_calls(&caller, "/spectrie.v1.Inference/Generate", 2_800, 73).await;
    let mut health = HealthClient::new(router.channel().await);
    let asked = HealthCheckRequest::default();
    assert!(within(health.check(asked)).await.is_ok());
    let mut client = router.client().await;
    assert!(within(client.generate(request("abc"))).await.is_ok());
    drop(caller);
}

/// Connections that begin calls of `path` that never end, many each, once all they sent was looked at.
async fn half_callers(
    address: &str,
    path: &'static str,
    key: Option<&'static str>,
    count: usize,
) -> Vec<HalfCaller> {
    let mut callers = Vec::new();
    for _ in 0..6 {
        let caller = HalfCaller::connect(address).await;
        let mut halves = tokio::task::JoinSet::new();
        for _ in 0..count {
            let mut caller = caller.clone();
            halves.spawn(async move { caller.call(path, key, half_message(1000, 10)).await });
        }
        // Those that find no room are answered, in the order in which they were begun.
        let headers = within(halves.join_next()).await.unwrap().unwrap();
        assert_eq!(code(&headers), Some(Code::ResourceExhausted));
        halves.detach_all();
        callers.push(caller);
    }
    callers
}

#[tokio::test]
async fn half_calls_of_many_connections_leave_room_for_a_probe() {
    let router = TestRouter::start().await;
    let address = router.bound.grpc.as_deref().unwrap();
    let callers = half_callers(address, "/grpc.health.v1.Health/Check", None, 250).await;
    let mut health = HealthClient::new(router.channel().await);
    let asked = HealthCheckRequest::default();
    assert!(within(health.check(asked)).await.is_ok());
    drop(callers);
}

#[tokio::test]
async fn half_calls_of_one_tenant_leave_room_for_those_of_others() {
    let router = TestRouter::keyed("sesame team\nother crew\n", |config| {
        config.limits.max_unfinished_bytes = 1 << 20;
        config.limits.max_message_bytes = 64 << 10;
    })
    .await
    .shown("other");
    let roomy = FakeWorker {
        max_context: 1 << 14,
        ..FakeWorker::default()
    };
    let _worker = router.worker(roomy).await;
    let address = router.bound.grpc.as_deref().unwrap();
    let path = "/spectrie.v1.Inference/Generate";
    let callers = half_callers(address, path, Some("sesame"), 100).await;
    let mut asked = tonic::Request::new(request(&"abc".repeat(3_000)));
    let key = "Bearer other".parse().unwrap();
    asked.metadata_mut().insert("authorization", key);
    within(router.client().await.generate(asked)).await.unwrap();
    drop(callers);
}

#[tokio::test]
async fn body_that_does_not_end_is_ended() {
    let router = TestRouter::with(|config| config.limits.body_timeout_s = 0.1).await;
    let mut caller = HalfCaller::connect(router.bound.grpc.as_deref().unwrap()).await;
    for path in [
        "/spectrie.v1.Inference/Generate",
        "/grpc.health.v1.Health/Check",
    ] {
        let headers = within(caller.call(path, None, half_message(1000, 10))).await;
        let status = tonic::Status::from_header_map(&headers).unwrap();
        assert_eq!(status.code(), Code::DeadlineExceeded, "{path}");
        let message = "not complete after 0.1 seconds";
        assert!(status.message().contains(message), "{status}");
    }
}

#[tokio::test]
async fn health_takes_no_large_message() {
    let router = TestRouter::start().await;
    let mut caller = HalfCaller::connect(router.bound.grpc.as_deref().unwrap()).await;
    let half = half_message(1 << 20, 16_000);
    let headers = within(caller.call("/grpc.health.v1.Health/Check", None, half)).await;
    assert_eq!(code(&headers), Some(Code::ResourceExhausted));
}

#[tokio::test]
async fn bytes_that_are_no_message_are_the_callers_fault() {
    let router = TestRouter::start().await;
    let mut caller = HalfCaller::connect(router.bound.grpc.as_deref().unwrap()).await;
    let garbage = [vec![0, 0, 0, 0, 4], vec![0xff; 4]].concat();
    let compressed = [vec![7, 0, 0, 0, 1], vec![0]].concat();
    for bytes in [garbage, compressed] {
        let path = "/spectrie.v1.Inference/Generate";
        let headers = within(caller.call(path, None, bytes)).await;
        let status = tonic::Status::from_header_map(&headers).unwrap();
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        let details = status.get_error_details();
        let violation = &details.bad_request().unwrap().field_violations[0];
        assert_eq!(violation.field, "message");
    }
}
