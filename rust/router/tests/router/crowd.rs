//! More connections than there are places: who waits makes room, who works stays, health answers.

use spectrie_proto::v1;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::support::fake_worker::FakeWorker;
use crate::support::{TestRouter, request, within};

/// The answer to `GET path` on a connection of its own.
async fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn health(router: &TestRouter) -> ServingStatus {
    let mut health = HealthClient::new(router.channel().await);
    let asked = HealthCheckRequest::default();
    health.check(asked).await.unwrap().into_inner().status()
}

/// Whether the peer closed `stream`, sooner or later.
async fn is_closed(stream: &mut TcpStream) -> bool {
    let mut heard = Vec::new();
    // What a server says first does not matter.
    !matches!(within(stream.read_to_end(&mut heard)).await, Err(error) if error.kind() != std::io::ErrorKind::ConnectionReset)
}

#[tokio::test]
async fn idle_connections_make_room_for_those_that_ask() {
    let router = TestRouter::with(|config| config.limits.max_connections = Some(8)).await;
    let _worker = router.worker(FakeWorker::default()).await;
    let http = router.bound.http.clone().unwrap();
    let grpc = router.bound.grpc.clone().unwrap();
    let mut idle = Vec::new();
    for _ in 0..100 {
        for address in [&http, &grpc] {
            idle.push(TcpStream::connect(address).await.unwrap());
        }
    }
    for _ in 0..5 {
        assert!(
            within(get(&http, "/healthz"))
                .await
                .starts_with("HTTP/1.1 200")
        );
        assert_eq!(within(health(&router)).await, ServingStatus::Serving);
        let mut client = router.client().await;
        let answer = within(client.generate(request("abc"))).await.unwrap();
        assert_eq!(answer.into_inner().choices[0].text, "abc");
    }
    for stream in &mut idle[..190] {
        assert!(is_closed(stream).await);
    }
}

#[tokio::test]
async fn busy_connections_stay_and_probes_answer_beside_them() {
    let router = TestRouter::with(|config| config.limits.max_connections = Some(4)).await;
    let frozen = FakeWorker {
        is_frozen: true,
        ..FakeWorker::default()
    };
    let _worker = router.worker(frozen).await;
    let mut running = Vec::new();
    for _ in 0..4 {
        let mut client = router.client().await;
        let stream = within(client.generate_stream(request("abc")))
            .await
            .unwrap();
        running.push((client, stream));
    }
    let http = router.bound.http.clone().unwrap();
    for _ in 0..20 {
        assert!(
            within(get(&http, "/healthz"))
                .await
                .starts_with("HTTP/1.1 200")
        );
        assert_eq!(within(health(&router)).await, ServingStatus::Serving);
    }
    let refused = within(get(&http, "/v1/models")).await;
    assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    assert!(refused.contains("retry-after: 1"), "{refused}");
    assert!(refused.contains("too_many_connections"), "{refused}");
    let mut late = router.client().await;
    let status = within(late.list_models(v1::ListModelsRequest {})).await;
    assert_eq!(status.unwrap_err().code(), Code::Unavailable);
    // The place of one that ended is the late one's.
    running.pop();
    within(async {
        while late.list_models(v1::ListModelsRequest {}).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    // What was refused for its connection is counted like every answer.
    drop((running, late));
    let metrics = within(async {
        loop {
            let answer = get(&http, "/metrics").await;
            if answer.starts_with("HTTP/1.1 200") {
                return answer;
            }
        }
    })
    .await;
    for refused in [
        "spectrie_requests_total{route=\"/v1/models\",code=\"503\"} 1",
        "spectrie_requests_total{route=\"ListModels\",code=\"Unavailable\"}",
    ] {
        assert!(metrics.contains(refused), "{refused} in {metrics}");
    }
}

#[tokio::test]
async fn peer_that_says_nothing_is_dropped_on_every_listener() {
    let token = crate::support::keys_file("secret");
    let router = TestRouter::with(|config| {
        config.limits.hello_timeout_s = 0.05;
        config.listen.metrics = Some("127.0.0.1:0".into());
        config.listen.admin = Some("127.0.0.1:0".into());
        config.listen.worker = "127.0.0.1:0".into();
        config.access.worker_token_file = Some(token);
    })
    .await;
    let bound = router.bound.clone();
    let addresses = [bound.http, bound.grpc, bound.metrics, bound.admin];
    let addresses = addresses.into_iter().flatten().chain([bound.worker]);
    for address in addresses {
        for beginning in [&b""[..], b"PRI * HTTP/2"] {
            let mut stream = TcpStream::connect(&address).await.unwrap();
            stream.write_all(beginning).await.unwrap();
            let mut heard = Vec::new();
            // What a server says first does not matter; it hangs up.
            let _ = within(stream.read_to_end(&mut heard)).await;
        }
    }
}

#[tokio::test]
async fn strangers_do_not_take_the_place_of_a_worker() {
    let token = crate::support::keys_file("secret");
    let router = TestRouter::with(|config| {
        config.limits.max_worker_connections = Some(4);
        config.listen.worker = "127.0.0.1:0".into();
        config.access.worker_token_file = Some(token);
    })
    .await;
    let worker = router
        .worker(FakeWorker {
            worker_token: Some("secret".into()),
            ..FakeWorker::default()
        })
        .await;
    let mut idle = Vec::new();
    for _ in 0..40 {
        idle.push(TcpStream::connect(&router.bound.worker).await.unwrap());
    }
    let mut client = router.client().await;
    let answer = within(client.generate(request("abc"))).await.unwrap();
    assert_eq!(answer.into_inner().choices[0].text, "abc");
    drop(worker);
}
