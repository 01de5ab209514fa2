//! What a listener says to whom: names, metrics, reflection, every route.

use std::path::Path;

use spectrie_proto::v1;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::Code;
use tonic_types::StatusExt as _;

use crate::support::fake_worker::FakeWorker;
use crate::support::half_call::{HalfCaller, code};
use crate::support::{TestRouter, keys_file, request, within};

const REFLECTION: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";

/// The whole answer to a request of one line and `headers`.
async fn ask(address: &str, line: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("{line} HTTP/1.1\r\nconnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    within(stream.read_to_string(&mut answer)).await.unwrap();
    answer
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

#[tokio::test]
async fn listener_of_this_machine_without_keys_answers_by_its_own_names_alone() {
    let router = TestRouter::with(|config| {
        config.access.allowed_hosts = vec!["llm.example".into()];
    })
    .await;
    let http = router.bound.http.clone().unwrap();
    for host in ["localhost", "127.0.0.1:8000", "[::1]", "llm.example"] {
        let answer = ask(&http, "GET /v1/models", &format!("host: {host}\r\n")).await;
        assert_eq!(status(&answer), "200", "{host}");
    }
    for path in ["/v1/models", "/metrics", "/version", "/none"] {
        let line = format!("GET {path}");
        let answer = ask(&http, &line, "host: evil.example\r\n").await;
        assert_eq!(status(&answer), "403", "{answer}");
        assert!(answer.contains("--allowed-hosts"), "{answer}");
        assert!(answer.contains("\"code\":\"host_not_allowed\""), "{answer}");
    }
    let answer = ask(&http, "GET /healthz", "host: 10.0.0.7\r\n").await;
    assert_eq!(status(&answer), "200");
}

#[tokio::test]
async fn names_are_not_asked_where_keys_are_or_where_other_machines_reach() {
    let keys = keys_file("sesame team\n");
    let keyed = TestRouter::with(|config| config.access.api_keys_file = Some(keys)).await;
    let headers = "host: llm.example\r\nauthorization: Bearer sesame\r\n";
    let answer = ask(
        keyed.bound.http.as_ref().unwrap(),
        "GET /v1/models",
        headers,
    )
    .await;
    assert_eq!(status(&answer), "200");
    let public = TestRouter::with(|config| config.listen.http = Some("0.0.0.0:0".into())).await;
    let port = public.bound.http.as_ref().unwrap().rsplit(':').next();
    let address = format!("127.0.0.1:{}", port.unwrap());
    let answer = ask(&address, "GET /v1/models", "host: llm.example\r\n").await;
    assert_eq!(status(&answer), "200");
}

#[tokio::test]
async fn keys_close_metrics_version_and_reflection_until_they_are_opened() {
    for is_open in [false, true] {
        let keys = keys_file("sesame team\n");
        let router = TestRouter::with(|config| {
            config.access.api_keys_file = Some(keys);
            config.access.open_introspection = is_open;
            config.listen.metrics = Some("127.0.0.1:0".into());
        })
        .await;
        let http = router.bound.http.clone().unwrap();
        let key = "authorization: Bearer sesame\r\n";
        let expected = if is_open {
            ["200"; 4]
        } else {
            ["401", "403", "401", "200"]
        };
        let asked = [
            ("GET /metrics", ""),
            ("GET /metrics", key),
            ("GET /version", ""),
            ("GET /version", key),
        ];
        for ((line, headers), expected) in asked.into_iter().zip(expected) {
            let answer = ask(&http, line, headers).await;
            assert_eq!(status(&answer), expected, "{line} {headers}");
        }
        let own = router.bound.metrics.clone().unwrap();
        for path in ["/metrics", "/healthz"] {
            let answer = ask(&own, &format!("GET {path}"), "host: any\r\n").await;
            assert_eq!(status(&answer), "200");
        }
        let mut caller = HalfCaller::connect(router.bound.grpc.as_deref().unwrap()).await;
        let question = vec![0, 0, 0, 0, 2, 0x3a, 0];
        let answer = caller.call(REFLECTION, None, question.clone());
        assert_eq!(
            code(&within(answer).await),
            (!is_open).then_some(Code::Unauthenticated)
        );
        let answer = caller.call(REFLECTION, Some("sesame"), question);
        assert_eq!(code(&within(answer).await), None);
    }
}

/// Every path that a file under `folder` routes, with its method.
fn routed(folder: &Path) -> Vec<(String, &'static str)> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            paths.extend(routed(&path));
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap();
        for call in code.split(".route(").skip(1) {
            let path = call.split('"').nth(1).unwrap().to_owned();
            let place = |method| call.find(method).unwrap_or(usize::MAX);
            let is_get = place("get(") < place("post(");
            paths.push((path, if is_get { "get" } else { "post" }));
        }
    }
    paths
}

#[tokio::test]
async fn every_route_and_method_is_denied_without_a_key() {
    let keys = keys_file("sesame team\n");
    let router = TestRouter::with(|config| config.access.api_keys_file = Some(keys)).await;
    let http = router.bound.http.clone().unwrap();
    let paths = routed(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http")).into_iter();
    let mut paths: Vec<_> = paths.map(|(path, _)| path).collect();
    assert!(paths.len() >= 9, "{paths:?}");
    let probes = ["/healthz", "/health", "/readyz"];
    paths.retain(|path| !probes.contains(&path.as_str()));
    paths.extend([
        "/".into(),
        "//metrics".into(),
        "/healthz/".into(),
        "/metrics/../v1/models".into(),
    ]);
    for path in paths {
        let path = path.replace("{*id}", "fake").replace("{id}", "fake");
        for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
            for key in ["", "authorization: Bearer wrong\r\n"] {
                let headers = format!("host: localhost\r\ncontent-length: 0\r\n{key}");
                let answer = ask(&http, &format!("{method} {path}"), &headers).await;
                assert_eq!(status(&answer), "401", "{method} {path}");
            }
        }
    }
}

#[tokio::test]
async fn document_names_every_route_and_no_other() {
    let router = TestRouter::start().await;
    let answer = ask(
        router.bound.http.as_ref().unwrap(),
        "GET /openapi.json",
        "host: localhost\r\n",
    )
    .await;
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let document: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(document["openapi"], "3.1.0");
    let mut named = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys() {
            named.push((path.clone(), method.clone()));
        }
    }
    named.sort();
    // Operators' routes are on another listener.
    let served = routed(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http"));
    let served = served
        .into_iter()
        .filter(|(path, _)| !path.starts_with("/debug/"));
    let mut served: Vec<_> = served
        .map(|(path, method)| (path.replace("{*id}", "{id}"), method.to_owned()))
        .collect();
    served.sort();
    assert_eq!(named, served);
}

#[tokio::test]
async fn what_a_caller_sends_is_not_repeated_whole() {
    let router = TestRouter::start().await;
    let _worker = router.worker(FakeWorker::default()).await;
    let mut client = router.client().await;
    let mut asked = request("abc");
    asked.model = Some("m".repeat(1 << 20));
    let refused = within(client.generate(asked)).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    let resource = refused
        .get_error_details()
        .resource_info()
        .cloned()
        .unwrap();
    assert!(refused.message().len() < 400 && resource.resource_name.len() < 300);
    assert!(refused.message().contains("(1048576 bytes)"), "{refused}");

    let mut asked = request("abc");
    asked.request_id = Some(format!(
        "r1\n2026-01-01 ERROR forged {}",
        "x".repeat(1 << 20)
    ));
    let refused = within(client.generate(asked)).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    let info = refused.get_error_details().request_info().cloned().unwrap();
    assert!(info.request_id.len() < 300 && !info.request_id.contains('\n'));
    let models = within(client.list_models(v1::ListModelsRequest {})).await;
    assert_eq!(models.unwrap().into_inner().models.len(), 1);
}
