//! Listeners with certificates: who is served, who must show one, and how they are renewed.

use http::Request;
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use spectrie_proto::v1::inference_client::InferenceClient;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_stream::StreamExt as _;

use crate::support::authority::{Authority, Issued};
use crate::support::fake_worker::FakeWorker;
use crate::support::{TestRouter, request, within};
use spectrie_router::RouterConfig;

fn serving_with(issued: &Issued) -> impl FnOnce(&mut RouterConfig) {
    let issued = issued.clone();
    move |config| {
        config.tls.cert = Some(issued.cert);
        config.tls.key = Some(issued.key);
    }
}

/// The status line of `GET path` by HTTP/1.1 over TLS.
async fn get(authority: &Authority, address: &str, path: &str, own: Option<&Issued>) -> String {
    let Ok(mut stream) = authority.connect(address, "http/1.1", own).await else {
        return "refused".into();
    };
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let mut answer = Vec::new();
    if stream.write_all(request.as_bytes()).await.is_err()
        || stream.read_to_end(&mut answer).await.is_err()
    {
        return "refused".into();
    }
    let answer = String::from_utf8(answer).unwrap();
    answer.lines().next().unwrap_or("refused").to_owned()
}

#[tokio::test]
async fn every_public_listener_speaks_tls_and_the_one_for_metrics_does_not() {
    let authority = Authority::new();
    let issued = authority.issue("router");
    let router = TestRouter::with(|config| {
        serving_with(&issued)(config);
        config.listen.metrics = Some("127.0.0.1:0".into());
    })
    .await;
    let _worker = router.dial(FakeWorker::default());
    let http = router.bound.http.clone().unwrap();
    assert_eq!(
        within(get(&authority, &http, "/healthz", None)).await,
        "HTTP/1.1 200 OK"
    );

    let stream = within(authority.connect(&http, "h2", None)).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    let asked = Request::get("https://localhost/version").body(Empty::<bytes::Bytes>::new());
    let answer = within(sender.send_request(asked.unwrap())).await.unwrap();
    assert_eq!(
        (answer.status().as_u16(), answer.version()),
        (200, http::Version::HTTP_2)
    );
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    assert!(body.starts_with(b"{\"version\""));

    let grpc = router.bound.grpc.clone().unwrap();
    let channel = within(authority.channel(&grpc, None)).await.unwrap();
    let mut client = InferenceClient::new(channel);
    within(async {
        while client.generate(request("abc")).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;

    // Who does not speak it gets no answer, and the listener goes on.
    for address in [&http, &grpc] {
        let mut plain = TcpStream::connect(address).await.unwrap();
        plain
            .write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            .await
            .unwrap();
        let mut heard = Vec::new();
        let _ = within(plain.read_to_end(&mut heard)).await;
        assert!(!heard.starts_with(b"HTTP/"), "{heard:?}");
    }
    assert_eq!(
        within(get(&authority, &http, "/healthz", None)).await,
        "HTTP/1.1 200 OK"
    );

    let metrics = router.bound.metrics.clone().unwrap();
    let mut plain = TcpStream::connect(metrics).await.unwrap();
    let asked = b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    plain.write_all(asked).await.unwrap();
    let mut heard = String::new();
    within(plain.read_to_string(&mut heard)).await.unwrap();
    assert!(
        heard.starts_with("HTTP/1.1 200") && heard.contains("# EOF"),
        "{heard}"
    );
}

#[tokio::test]
async fn clients_show_a_certificate_of_the_authority_where_one_is_set() {
    let (authority, other) = (Authority::new(), Authority::new());
    let issued = authority.issue("router");
    let router = TestRouter::with(|config| {
        serving_with(&issued)(config);
        config.tls.client_ca = Some(authority.file.clone());
        config.listen.admin = Some("127.0.0.1:0".into());
    })
    .await;
    let http = router.bound.http.clone().unwrap();
    let known = authority.issue("client");
    let stranger = other.issue("client");
    assert_eq!(
        within(get(&authority, &http, "/healthz", None)).await,
        "refused"
    );
    let refused = within(get(&authority, &http, "/healthz", Some(&stranger))).await;
    assert_eq!(refused, "refused");
    let served = within(get(&authority, &http, "/healthz", Some(&known))).await;
    assert_eq!(served, "HTTP/1.1 200 OK");
    for address in [router.bound.grpc.clone(), router.bound.admin.clone()] {
        let address = address.unwrap();
        for (own, is_served) in [
            (None, false),
            (Some(&stranger), false),
            (Some(&known), true),
        ] {
            let health = async {
                let channel = authority.channel(&address, own).await.ok()?;
                let mut health = tonic_health::pb::health_client::HealthClient::new(channel);
                health
                    .check(tonic_health::pb::HealthCheckRequest::default())
                    .await
                    .ok()
            };
            assert_eq!(within(health).await.is_some(), is_served, "{address}");
        }
    }
}

#[tokio::test]
async fn workers_join_by_certificate_instead_of_a_token() {
    let (authority, other) = (Authority::new(), Authority::new());
    let issued = authority.issue("router");
    let router = TestRouter::with(|config| {
        serving_with(&issued)(config);
        config.tls.worker_ca = Some(authority.file.clone());
        config.listen.worker = "127.0.0.1:0".into();
    })
    .await;
    let address = router.bound.worker.clone();
    let stranger = other.issue("worker");
    for own in [None, Some(&stranger)] {
        let joined = async {
            let worker = FakeWorker {
                channel: Some(authority.channel(&address, own).await.ok()?),
                ..FakeWorker::default()
            };
            router.dial(worker).ended().await.ok()
        };
        assert!(within(joined).await.is_none());
    }
    let known = authority.issue("worker");
    let channel = within(authority.channel(&address, Some(&known)))
        .await
        .unwrap();
    let _worker = router.dial(FakeWorker {
        channel: Some(channel),
        ..FakeWorker::default()
    });
    let grpc = router.bound.grpc.clone().unwrap();
    let mut client = InferenceClient::new(authority.channel(&grpc, None).await.unwrap());
    within(async {
        while client.generate(request("abc")).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn renewed_certificates_serve_new_connections_and_bad_files_change_nothing() {
    let authority = Authority::new();
    let issued = authority.issue("router");
    let router = TestRouter::with(serving_with(&issued)).await;
    let worker = FakeWorker {
        is_frozen: true,
        ..FakeWorker::default()
    };
    let _worker = router.dial(worker);
    let grpc = router.bound.grpc.clone().unwrap();
    let shown = async || {
        let stream = authority.connect(&grpc, "h2", None).await.unwrap();
        let (_, session) = stream.get_ref();
        session.peer_certificates().unwrap()[0].clone()
    };
    let first = within(shown()).await;
    let mut client = InferenceClient::new(authority.channel(&grpc, None).await.unwrap());
    let mut stream = within(async {
        loop {
            if let Ok(stream) = client.generate_stream(request("abc")).await {
                return stream.into_inner();
            }
        }
    })
    .await;
    assert!(within(stream.next()).await.unwrap().is_ok());

    authority.issue("router");
    let second = within(async {
        loop {
            let second = shown().await;
            if second != first {
                return second;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    })
    .await;
    // The key of another certificate, then no certificate at all.
    let spare = authority.issue("spare");
    std::fs::copy(&spare.key, &issued.key).unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(2500)).await;
    assert_eq!(within(shown()).await, second);
    std::fs::write(&issued.cert, "garbage").unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(2500)).await;
    assert_eq!(within(shown()).await, second);
    // A stream of the first certificate goes on.
    assert!(futures_util::poll!(std::pin::pin!(stream.next())).is_pending());
    authority.issue("router");
    within(async {
        while shown().await == second {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn certificates_that_cannot_be_used_are_named_at_the_start() {
    let authority = Authority::new();
    let issued = authority.issue("router");
    let spare = authority.issue("spare");
    let start = async |change: &dyn Fn(&mut RouterConfig)| {
        let mut config = RouterConfig::default();
        serving_with(&issued)(&mut config);
        change(&mut config);
        let shutdown = spectrie_router::Shutdown::new();
        let started = spectrie_router::app::serve(config, |_| {}, shutdown);
        within(started).await.unwrap_err().to_string()
    };
    let error = start(&|config| config.tls.key = None).await;
    assert!(error.contains("--tls-key"), "{error}");
    let error = start(&|config| config.tls.key = Some(spare.key.clone())).await;
    assert!(error.contains("--tls-cert"), "{error}");
    let error = start(&|config| config.tls.cert = Some(spare.key.clone())).await;
    assert!(error.contains("holds no certificate"), "{error}");
    let error = start(&|config| config.tls.client_ca = Some("/nowhere".into())).await;
    assert!(error.contains("--tls-client-ca"), "{error}");
}
