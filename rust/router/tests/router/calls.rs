//! What operators see of each call: its route, its counts, its end, and no text.

use serde_json::Value;
use spectrie_proto::v1;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_stream::StreamExt as _;

use crate::support::fake_worker::FakeWorker;
use crate::support::{TestRouter, get, keys_file, request, within};

const SECRET: &str = "words of a client";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

async fn observed(worker: FakeWorker) -> (TestRouter, crate::support::TestWorker) {
    let router =
        TestRouter::with(|config| config.listen.metrics = Some("127.0.0.1:0".into())).await;
    let worker = router.worker(worker).await;
    (router, worker)
}

/// The answer to a question of an operator.
async fn ask(router: &TestRouter, path: &str) -> Value {
    let answer = get(router.bound.metrics.as_deref().unwrap(), path).await;
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(!answer.contains(SECRET), "{answer}");
    serde_json::from_str(body).unwrap()
}

/// The call of that name, once it is in a state.
async fn call(router: &TestRouter, id: &str, state: &str) -> Value {
    within(async {
        loop {
            let answer = ask(router, &format!("/debug/requests/{id}")).await;
            if let Some(call) = answer["requests"].get(0)
                && call["state"] == state
            {
                return call.clone();
            }
            tokio::task::yield_now().await;
        }
    })
    .await
}

/// The whole answer to a body for `path`, with `headers`.
async fn post(router: &TestRouter, path: &str, headers: &str, body: &Value) -> String {
    let mut stream = TcpStream::connect(router.bound.http.as_ref().unwrap())
        .await
        .unwrap();
    let body = body.to_string();
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: \
         application/json\r\ncontent-length: {}\r\n{headers}\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    within(stream.read_to_string(&mut answer)).await.unwrap();
    answer
}

fn named(id: &str) -> v1::GenerateRequest {
    v1::GenerateRequest {
        request_id: Some(id.into()),
        ..request(SECRET)
    }
}

#[tokio::test]
async fn answered_calls_of_both_apis_say_what_they_did() {
    let (router, _worker) = observed(FakeWorker::default()).await;
    let mut client = router.client().await;
    within(client.generate(named("whole"))).await.unwrap();
    let stream = within(client.generate_stream(named("stream"))).await;
    let mut stream = stream.unwrap().into_inner();
    while within(stream.next()).await.transpose().unwrap().is_some() {}
    let headers = format!("x-request-id: mine\r\ntraceparent: 00-{TRACE}-00f067aa0ba902b7-01\r\n");
    for is_stream in [false, true] {
        let id = format!("http-{is_stream}");
        let prompts = [SECRET, SECRET];
        let body = serde_json::json!({"prompt": prompts, "max_tokens": 4, "n": 2,
            "stream": is_stream, "request_id": id});
        let answer = post(&router, "/v1/completions", &headers, &body).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    let num_tokens = SECRET.len() as u64;
    for (id, route) in [("whole", "Generate"), ("stream", "GenerateStream")] {
        let call = call(&router, id, "ended").await;
        assert_eq!(
            (&call["route"], &call["status"]),
            (&route.into(), &"Ok".into())
        );
        assert_eq!(call["outcome"], "stop");
        assert_eq!(
            (&call["choices"], &call["attempts"]),
            (&1.into(), &1.into())
        );
        assert_eq!(call["prompt_tokens"], num_tokens);
        assert_eq!(call["completion_tokens"], num_tokens + 1);
        assert_eq!(call["model"], "fake");
        assert_eq!(call["workers"].as_array().unwrap().len(), 1);
        assert!(
            call["accepted_by_source"]
                .as_object()
                .unwrap()
                .values()
                .all(Value::is_u64)
        );
        for time in ["queue_ms", "ttft_ms", "total_ms"] {
            assert!(call[time].as_f64().unwrap() >= 0.0, "{time}");
        }
    }
    for id in ["http-false", "http-true"] {
        let call = call(&router, id, "ended").await;
        assert_eq!(
            (&call["route"], &call["status"]),
            (&"/v1/completions".into(), &"200".into())
        );
        assert_eq!(call["outcome"], "length");
        assert_eq!(
            (&call["choices"], &call["completion_tokens"]),
            (&4.into(), &16.into())
        );
        assert_eq!(call["prompt_tokens"], 2 * num_tokens);
        assert_eq!(
            (&call["x_request_id"], &call["trace_id"]),
            (&"mine".into(), &TRACE.into())
        );
    }
    let of_trace = ask(&router, &format!("/debug/requests/{TRACE}")).await;
    assert_eq!(of_trace["requests"].as_array().unwrap().len(), 2);
    assert_eq!(
        ask(&router, "/debug/requests").await["running"],
        serde_json::json!([])
    );
}

#[tokio::test]
async fn running_call_is_listed_until_its_client_leaves() {
    let worker = FakeWorker {
        freezes_after: Some(2),
        ..FakeWorker::default()
    };
    let (router, _worker) = observed(worker).await;
    let mut client = router.client().await;
    let stream = within(client.generate_stream(named("held"))).await.unwrap();
    let running = call(&router, "held", "answering").await;
    assert_eq!(running["outcome"], Value::Null);
    assert!(running["completion_tokens"].as_u64() >= Some(2));
    drop(stream);
    let ended = call(&router, "held", "ended").await;
    assert_eq!(ended["outcome"], "CANCELLED");
    assert!(ended["completion_tokens"].as_u64() >= Some(2));
    // A whole answer that was never given has no status.
    let mut other = router.client().await;
    let whole = tokio::spawn(async move { other.generate(named("whole")).await });
    call(&router, "whole", "answering").await;
    whole.abort();
    let ended = call(&router, "whole", "ended").await;
    assert_eq!(
        (&ended["outcome"], &ended["status"]),
        (&"CANCELLED".into(), &Value::Null)
    );
}

#[tokio::test]
async fn call_that_goes_on_with_a_stream_says_how_many_choices_that_has() {
    let (router, _worker) = observed(FakeWorker::default()).await;
    let mut client = router.client().await;
    let asked = v1::GenerateRequest {
        sampling: Some(v1::Sampling {
            n: Some(2),
            ..Default::default()
        }),
        ..named("cut")
    };
    let stream = within(client.generate_stream(asked)).await.unwrap();
    let mut stream = stream.into_inner();
    let first = within(stream.next()).await.unwrap().unwrap().event.unwrap();
    let v1::generate_event::Event::Started(started) = first else {
        panic!("{first:?}")
    };
    drop(stream);
    let asked = v1::ResumeStreamRequest {
        request_id: started.request_id,
        resume_token: started.resume_token.unwrap(),
        starting_after: Vec::new(),
    };
    let stream = within(client.resume_stream(asked)).await.unwrap();
    let mut stream = stream.into_inner();
    while within(stream.next()).await.transpose().unwrap().is_some() {}
    let resumed = within(async {
        loop {
            let answer = ask(&router, "/debug/requests/cut").await;
            let calls = answer["requests"].as_array().unwrap();
            let mut ended = calls.iter().filter(|call| call["state"] == "ended");
            if let Some(call) = ended.find(|call| call["route"] == "ResumeStream") {
                return call.clone();
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(resumed["choices"], 2);
    // Its prompt was the first call's.
    assert_eq!(resumed["prompt_tokens"], 0);
}

#[tokio::test]
async fn refused_calls_say_why() {
    let keys = keys_file("sesame team\n");
    let router = TestRouter::with(|config| {
        config.access.api_keys_file = Some(keys);
        config.listen.metrics = Some("127.0.0.1:0".into());
    })
    .await
    .shown("sesame");
    let _worker = router.worker(FakeWorker::default()).await;
    let mut client = router.client().await;
    let denied = within(client.generate(named("keyless"))).await;
    assert!(denied.is_err());
    let body = serde_json::json!({"prompt": SECRET, "temperature": -1, "request_id": "bad"});
    let keyed = "authorization: Bearer sesame\r\n";
    for headers in ["x-request-id: wrong\r\n", keyed] {
        post(&router, "/v1/completions", headers, &body).await;
    }
    let wrong = call(&router, "wrong", "ended").await;
    assert_eq!(
        (&wrong["status"], &wrong["outcome"]),
        (&"401".into(), &"INVALID_API_KEY".into())
    );
    assert_eq!(wrong["tenant"], Value::Null);
    let bad = call(&router, "bad", "ended").await;
    assert_eq!(
        (&bad["status"], &bad["outcome"]),
        (&"400".into(), &"INVALID_FIELD".into())
    );
    assert_eq!(bad["tenant"], "team");
    let all = ask(&router, "/debug/requests").await;
    let mut ended = all["ended"].as_array().unwrap().iter();
    let keyless = ended
        .find(|call| call["status"] == "Unauthenticated")
        .unwrap();
    assert_eq!(keyless["outcome"], "INVALID_API_KEY");
    assert!(!all.to_string().contains("sesame"), "{all}");
}

#[tokio::test]
async fn call_that_moves_to_another_worker_names_both() {
    let (router, _first) = observed(FakeWorker::default()).await;
    let dying = FakeWorker {
        die_after_tokens: Some(4),
        ..FakeWorker::default()
    };
    let _second = router.worker(dying).await;
    let mut client = router.client().await;
    within(client.generate(named("moved"))).await.unwrap();
    let moved = call(&router, "moved", "ended").await;
    assert_eq!(moved["attempts"], 2);
    assert_eq!(moved["workers"].as_array().unwrap().len(), 2);
    assert_eq!(moved["completion_tokens"], SECRET.len() + 1);
}

#[tokio::test]
async fn requests_are_shown_to_operators_alone() {
    let (router, _worker) = observed(FakeWorker::default()).await;
    let http = router.bound.http.as_deref().unwrap();
    for path in ["/debug/requests", "/debug/requests/a"] {
        assert!(get(http, path).await.starts_with("HTTP/1.1 404"));
    }
    let own = router.bound.metrics.as_deref().unwrap();
    assert!(
        get(own, "/debug/requests/none")
            .await
            .starts_with("HTTP/1.1 404")
    );
    // A page in a browser that took this machine for its own.
    let mut page = TcpStream::connect(own).await.unwrap();
    let asked = "GET /debug/requests HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n";
    page.write_all(asked.as_bytes()).await.unwrap();
    let mut answer = String::new();
    within(page.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");

    let token = keys_file("secret\n");
    for (is_public, has_token, expected) in [
        (true, false, "403"),
        (true, true, "401"),
        (false, true, "401"),
    ] {
        let router = TestRouter::with(|config| {
            let address = if is_public {
                "0.0.0.0:0"
            } else {
                "127.0.0.1:0"
            };
            config.listen.metrics = Some(address.into());
            config.access.admin_token_file = has_token.then(|| token.clone());
        })
        .await;
        let port = router.bound.metrics.as_deref().unwrap().rsplit(':').next();
        let address = format!("127.0.0.1:{}", port.unwrap());
        for path in ["/debug/requests", "/debug/requests/a"] {
            let answer = get(&address, path).await;
            assert!(answer.contains(expected), "{answer}");
        }
        assert!(get(&address, "/healthz").await.starts_with("HTTP/1.1 200"));
        if has_token {
            let mut stream = TcpStream::connect(&address).await.unwrap();
            let asked = "GET /debug/requests HTTP/1.1\r\nhost: any\r\nconnection: close\r\n\
                         authorization: Bearer secret\r\n\r\n";
            stream.write_all(asked.as_bytes()).await.unwrap();
            let mut answer = String::new();
            within(stream.read_to_string(&mut answer)).await.unwrap();
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
    }
    std::fs::remove_file(token).unwrap();
}
