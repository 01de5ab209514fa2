//! What a gRPC client finds beside generation: health, reflection, keys, limits.

use crate::support::fake_worker::FakeWorker;
use crate::support::{TestRouter, request, within};
use spectrie_proto::v1;
use tokio_stream::StreamExt as _;
use tonic::{Code, Request};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_types::StatusExt as _;

const SERVICE: &str = "spectrie.v1.Inference";

#[tokio::test]
async fn health_says_serving_while_a_worker_is_ready() {
    let router = TestRouter::start().await;
    let mut health = HealthClient::new(router.channel().await);
    let asked = |service: &str| HealthCheckRequest {
        service: service.into(),
    };
    let status = within(health.check(asked("")))
        .await
        .unwrap()
        .into_inner()
        .status();
    assert_eq!(status, ServingStatus::Serving);
    let mut watch = within(health.watch(asked(SERVICE)))
        .await
        .unwrap()
        .into_inner();
    let mut next = async || within(watch.next()).await.unwrap().unwrap().status();
    assert_eq!(next().await, ServingStatus::NotServing);
    let worker = router.worker(FakeWorker::default()).await;
    assert_eq!(next().await, ServingStatus::Serving);
    worker.kill();
    assert_eq!(next().await, ServingStatus::NotServing);
    let unknown = within(health.check(asked("spectrie.v1.Other")))
        .await
        .unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
}

#[tokio::test]
async fn reflection_lists_the_public_services_and_gives_their_files() {
    let router = TestRouter::start().await;
    let mut client = ServerReflectionClient::new(router.channel().await);
    let mut ask = async |message_request| {
        let request = ServerReflectionRequest {
            host: String::new(),
            message_request: Some(message_request),
        };
        let stream = client
            .server_reflection_info(tokio_stream::once(request))
            .await
            .unwrap();
        within(stream.into_inner().next())
            .await
            .unwrap()
            .unwrap()
            .message_response
            .unwrap()
    };
    let MessageResponse::ListServicesResponse(list) =
        ask(MessageRequest::ListServices(String::new())).await
    else {
        panic!("no list")
    };
    let names: Vec<_> = list
        .service
        .iter()
        .map(|service| service.name.as_str())
        .collect();
    assert!(
        names.contains(&SERVICE) && names.contains(&"grpc.health.v1.Health"),
        "{names:?}"
    );
    assert!(
        !names
            .iter()
            .any(|name| name.contains("worker") || name.contains("Admin")),
        "{names:?}"
    );
    let symbol = MessageRequest::FileContainingSymbol(SERVICE.into());
    let MessageResponse::FileDescriptorResponse(files) = ask(symbol).await else {
        panic!("no file")
    };
    assert!(!files.file_descriptor_proto.is_empty());
}

#[tokio::test]
async fn key_is_needed_where_keys_are_set_and_gives_the_namespace() {
    let folder = std::env::temp_dir().join(format!("spectrie-{:x}", rand::random::<u64>()));
    std::fs::create_dir(&folder).unwrap();
    let keys = folder.join("keys");
    std::fs::write(&keys, "key-of-ann ann\n").unwrap();
    let router = TestRouter::with(|config| config.access.api_keys_file = Some(keys)).await;
    std::fs::remove_dir_all(folder).unwrap();
    let mut client = router.client().await;
    let status = within(client.list_models(v1::ListModelsRequest {}))
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated);
    let mut asked = Request::new(request("abc"));
    asked
        .metadata_mut()
        .insert("authorization", "Bearer wrong".parse().unwrap());
    let status = within(client.generate(asked)).await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::Unauthenticated, "unknown api key")
    );

    let mut worker = router.dial(FakeWorker::default());
    let key: tonic::metadata::MetadataValue<_> = "Bearer key-of-ann".parse().unwrap();
    within(async {
        loop {
            let mut asked = Request::new(v1::ListModelsRequest {});
            asked.metadata_mut().insert("authorization", key.clone());
            let models = client.list_models(asked).await.unwrap().into_inner().models;
            if !models.is_empty() {
                break;
            }
        }
    })
    .await;
    let mut asked = Request::new(request("abc"));
    asked.metadata_mut().insert("authorization", key.clone());
    within(client.generate(asked)).await.unwrap();
    let crate::support::Message::Start(start) = worker.hear().await else {
        panic!("no start")
    };
    assert_eq!(start.namespace, "ann");
    assert_eq!(start.tenant.as_deref(), Some("ann"));
    let health = HealthClient::new(router.channel().await)
        .check(HealthCheckRequest {
            service: String::new(),
        })
        .await;
    assert!(health.is_ok(), "probes need no key");
}

#[tokio::test]
async fn too_large_message_is_resource_exhausted_with_the_limit() {
    let router = TestRouter::with(|config| config.limits.max_message_bytes = 1000).await;
    let status = within(router.client().await.generate(request(&"x".repeat(2000)))).await;
    let status = status.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(
        status.message().contains("allowed: up to 1000 bytes"),
        "{}",
        status.message()
    );
    let details = status.get_error_details();
    assert_eq!(details.error_info().unwrap().reason, "REQUEST_TOO_LARGE");
}

#[tokio::test]
async fn ids_without_end_or_of_a_text_without_end_are_refused() {
    let router = TestRouter::with(|config| config.limits.max_message_bytes = 600_000).await;
    let _worker = router.worker(FakeWorker::default()).await;
    let mut client = router.client().await;
    let mut refused = async |token_ids: Vec<u32>| {
        let asked = v1::DetokenizeRequest {
            token_ids,
            ..Default::default()
        };
        let status = within(client.detokenize(asked)).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        let details = status.get_error_details();
        let violations = &details.bad_request().unwrap().field_violations;
        assert_eq!(violations[0].field, "token_ids");
        violations[0].description.clone()
    };
    let too_many = refused(vec![97; (1 << 18) + 1]).await;
    assert_eq!(too_many, "given 262145 ids; allowed: up to 262144");
    // A token that is the byte 0x80 may become three bytes of text, and takes two of the message.
    let too_long = refused(vec![128; 1 << 18]).await;
    assert_eq!(
        too_long,
        "given 262144 ids, whose text can have 786432 bytes; allowed: up to 600000, as many as a message has: send \
         them in parts"
    );
}
