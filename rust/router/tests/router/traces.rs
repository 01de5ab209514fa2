//! Traces that a collector gets: whose spans they are, what they say, and that no call waits for them.

use spectrie_proto::v1;
use spectrie_proto::worker_v1::Start;
use spectrie_proto::worker_v1::router_message::Message;
use spectrie_router::app::{self, Bound};
use spectrie_router::{RouterConfig, Shutdown};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_stream::StreamExt as _;
use tonic::Request;

use crate::support::collector::{Collector, Seen, Times};
use crate::support::fake_worker::FakeWorker;
use crate::support::{TestRouter, TestWorker, get, request, within};

const SECRET: &str = "words of a client";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// A router that records the calls whose clients ask for it.
async fn traced(endpoint: &str) -> TestRouter {
    sampled(endpoint, 0.0).await
}

/// The same, and this share of those whose clients say nothing.
async fn sampled(endpoint: &str, sample: f64) -> TestRouter {
    let endpoint = endpoint.to_owned();
    TestRouter::keyed("sesame team\n", |config| {
        config.traces.endpoint = Some(endpoint);
        config.traces.sample = sample;
        config.listen.metrics = Some("127.0.0.1:0".into());
    })
    .await
}

/// A request of that name, of a client whose span has these flags; of none where they are absent.
fn named(id: &str, flags: Option<&str>) -> Request<v1::GenerateRequest> {
    let mut asked = Request::new(v1::GenerateRequest {
        request_id: Some(id.into()),
        ..request(SECRET)
    });
    let metadata = asked.metadata_mut();
    metadata.insert("authorization", "Bearer sesame".parse().unwrap());
    if let Some(flags) = flags {
        let header = format!("00-{TRACE}-{PARENT}-{flags}");
        metadata.insert("traceparent", header.parse().unwrap());
    }
    asked
}

async fn start_of(worker: &mut TestWorker) -> Start {
    loop {
        if let Message::Start(start) = worker.hear().await {
            return start;
        }
    }
}

fn of<'a>(spans: &'a [Seen], name: &str) -> Vec<&'a Seen> {
    let found: Vec<_> = spans.iter().filter(|span| span.name == name).collect();
    assert!(!found.is_empty(), "no {name} in {spans:?}");
    found
}

#[tokio::test]
async fn call_is_one_trace_from_its_client_to_its_worker() {
    let mut collector = Collector::start(&[200]).await;
    let router = traced(&collector.endpoint).await;
    let mut worker = router.worker(FakeWorker::default()).await;
    let mut client = router.client().await;
    within(client.generate(named("one", Some("01"))))
        .await
        .unwrap();
    let spans = collector.until(|span| span.parent == PARENT).await;
    assert!(spans.iter().all(|span| span.trace == TRACE), "{spans:?}");
    let whole = of(&spans, "text_completion fake")[0];
    let attempt = of(&spans, "spectrie.attempt")[0];
    assert_eq!((&whole.parent[..], whole.kind), (PARENT, 2));
    assert_eq!(attempt.parent, whole.id);
    assert_eq!(of(&spans, "spectrie.prepare")[0].parent, whole.id);
    for part in ["spectrie.queue", "spectrie.prefill", "spectrie.decode"] {
        let part = of(&spans, part)[0];
        assert_eq!(part.parent, attempt.id);
        assert!(attempt.start <= part.start && part.start <= part.end && part.end <= attempt.end);
    }
    assert!(whole.start <= attempt.start && attempt.end <= whole.end);
    let start = start_of(&mut worker).await;
    let told = format!("00-{TRACE}-{}-01", attempt.id);
    assert_eq!(start.traceparent.as_deref(), Some(&told[..]));
    let num_tokens = (SECRET.len() + 1).to_string();
    for (name, value) in [
        ("gen_ai.operation.name", "text_completion"),
        ("gen_ai.request.model", "fake"),
        ("gen_ai.response.id", "one"),
        ("gen_ai.response.finish_reasons", "stop"),
        ("gen_ai.usage.input_tokens", &SECRET.len().to_string()),
        ("gen_ai.usage.output_tokens", &num_tokens),
        ("rpc.method", "Generate"),
        ("rpc.response.status_code", "Ok"),
        ("spectrie.tenant", "team"),
    ] {
        assert_eq!(whole.attributes[name], value, "{name}");
    }
    let decode = of(&spans, "spectrie.decode")[0];
    assert_eq!(decode.attributes["spectrie.tokens"], num_tokens);
    assert!(
        decode
            .attributes
            .contains_key("spectrie.accepted_tokens.request"),
        "{decode:?}"
    );
    let steps = decode
        .events
        .iter()
        .filter(|(name, _)| name == "spectrie.step");
    let counted = steps.map(|(_, step)| step["spectrie.tokens"].parse::<usize>().unwrap());
    assert_eq!(counted.sum::<usize>(), SECRET.len() + 1);
    let all = format!("{spans:?}");
    assert!(!all.contains(SECRET) && !all.contains("sesame"), "{all}");
    let mut ids: Vec<_> = spans.iter().map(|span| &span.id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), spans.len());
}

#[tokio::test]
async fn answer_that_moves_to_another_worker_stays_in_its_trace() {
    let mut collector = Collector::start(&[200]).await;
    let router = traced(&collector.endpoint).await;
    let dying = FakeWorker {
        die_after_tokens: Some(6),
        ..FakeWorker::default()
    };
    let mut other = router.worker(FakeWorker::default()).await;
    let mut dying = router.worker(dying).await;
    let mut client = router.client().await;
    within(client.generate(named("moved", Some("01"))))
        .await
        .unwrap();
    let spans = collector.until(|span| span.parent == PARENT).await;
    assert!(spans.iter().all(|span| span.trace == TRACE), "{spans:?}");
    let attempts = of(&spans, "spectrie.attempt");
    assert_eq!(attempts.len(), 2);
    let [first, second] = [attempts[0], attempts[1]];
    assert_eq!((first.status, second.status), (2, 0));
    assert_eq!(first.attributes["error.type"], "worker_died");
    assert_ne!(
        first.attributes["spectrie.worker"],
        second.attributes["spectrie.worker"]
    );
    for (worker, attempt) in [(&mut dying, first), (&mut other, second)] {
        let told = start_of(worker).await.traceparent;
        assert_eq!(told, Some(format!("00-{TRACE}-{}-01", attempt.id)));
    }
    let whole = of(&spans, "text_completion fake")[0];
    assert_eq!(whole.status, 0);
    let (name, failover) = &whole.events[0];
    assert_eq!((&name[..], whole.events.len()), ("spectrie.failover", 1));
    assert_eq!(failover["error.type"], "worker_died");
    let decodes = of(&spans, "spectrie.decode");
    let parents: Vec<_> = decodes.iter().map(|span| &span.parent).collect();
    // What a worker sent last can be lost with it, then the other one computes all.
    let both = [&first.id, &second.id];
    assert!(parents == both || parents == both[1..], "{parents:?}");
    let counts = decodes
        .iter()
        .map(|span| span.attributes["spectrie.tokens"].parse::<usize>());
    assert_eq!(counts.map(Result::unwrap).sum::<usize>(), SECRET.len() + 1);
}

#[tokio::test]
async fn client_that_records_nothing_has_no_spans_and_its_worker_hears_of_its_trace() {
    let mut collector = Collector::start(&[200]).await;
    let router = sampled(&collector.endpoint, 1.0).await;
    let mut worker = router.worker(FakeWorker::default()).await;
    let mut client = router.client().await;
    within(client.generate(named("silent", Some("00"))))
        .await
        .unwrap();
    let told = start_of(&mut worker).await.traceparent;
    assert_eq!(told, Some(format!("00-{TRACE}-{PARENT}-00")));
    // Without a header the router begins a trace.
    within(client.generate(named("begun", None))).await.unwrap();
    let is_whole = |span: &Seen| span.attributes.contains_key("gen_ai.response.id");
    let spans = collector.until(is_whole).await;
    let whole = spans.iter().find(|span| is_whole(span)).unwrap();
    assert_eq!(
        (
            &whole.attributes["gen_ai.response.id"][..],
            &whole.parent[..]
        ),
        ("begun", "")
    );
    assert!(
        spans
            .iter()
            .all(|span| span.trace != TRACE && span.trace.len() == 32)
    );
}

#[tokio::test]
async fn failed_and_refused_calls_say_why() {
    let mut collector = Collector::start(&[200]).await;
    let router = traced(&collector.endpoint).await;
    let _worker = router.worker(FakeWorker::default()).await;
    let mut client = router.client().await;
    let mut bad = named("bad", Some("01"));
    bad.get_mut().model = Some("unknown".into());
    within(client.generate(bad)).await.unwrap_err();
    let mut keyless = named("keyless", Some("01"));
    keyless.metadata_mut().remove("authorization");
    within(client.generate(keyless)).await.unwrap_err();
    let failed = |reason: &'static str| {
        move |span: &Seen| {
            span.attributes
                .get("error.type")
                .is_some_and(|it| it == reason)
        }
    };
    // Which of them ends first is not said.
    let mut spans = collector.until(failed("INVALID_API_KEY")).await;
    if !spans.iter().any(failed("MODEL_NOT_FOUND")) {
        spans.extend(collector.until(failed("MODEL_NOT_FOUND")).await);
    }
    let why = |span: &Seen| (span.status, span.attributes["error.type"].clone());
    let mut all: Vec<_> = spans.iter().map(why).collect();
    all.sort();
    assert_eq!(
        all,
        [(2, "INVALID_API_KEY".into()), (2, "MODEL_NOT_FOUND".into())]
    );
}

#[tokio::test]
async fn spans_that_a_collector_refuses_are_dropped_and_counted() {
    let mut collector = Collector::start(&[400, 200]).await;
    let router = traced(&collector.endpoint).await;
    let _worker = router.worker(FakeWorker::default()).await;
    let mut client = router.client().await;
    within(client.generate(named("first", Some("01"))))
        .await
        .unwrap();
    let metrics = router.bound.metrics.clone().unwrap();
    let counted = |name: &'static str| {
        let metrics = metrics.clone();
        async move {
            loop {
                let text = get(&metrics, "/metrics").await;
                let line = text.lines().find_map(|line| line.strip_prefix(name));
                if let Some(count) = line.map(|count| count.trim().parse::<u64>().unwrap())
                    && count > 0
                {
                    return count;
                }
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        }
    };
    let dropped = within(counted(
        "spectrie_otlp_dropped_spans_total{reason=\"collector\"}",
    ))
    .await;
    within(client.generate(named("second", Some("01"))))
        .await
        .unwrap();
    let spans = collector.until(|span| span.parent == PARENT).await;
    let sent = within(counted("spectrie_otlp_sent_spans_total ")).await;
    assert_eq!(sent, spans.len() as u64);
    assert_eq!(dropped, sent);
    assert_eq!(
        of(&spans, "text_completion fake")[0].attributes["gen_ai.response.id"],
        "second"
    );
}

#[tokio::test]
async fn calls_are_answered_and_the_router_ends_whatever_its_collector_does() {
    // One takes connections and never answers, the other is not there.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let [silent_at, gone_at] = [&silent, &gone].map(|one| one.local_addr().unwrap());
    drop(gone);
    for endpoint in [silent_at, gone_at] {
        let router = traced(&format!("http://{endpoint}")).await;
        let _worker = router.worker(FakeWorker::default()).await;
        let mut client = router.client().await;
        let mut streams = Vec::new();
        for index in 0..20 {
            let asked = named(&index.to_string(), Some("01"));
            streams.push(
                within(client.generate_stream(asked))
                    .await
                    .unwrap()
                    .into_inner(),
            );
        }
        for mut stream in streams {
            while within(stream.next()).await.transpose().unwrap().is_some() {}
        }
        router.shutdown.request();
        router.ended().await;
    }
}

#[tokio::test]
async fn spans_of_the_last_calls_are_sent_before_the_router_ends() {
    let mut collector = Collector::start(&[200]).await;
    let router = traced(&collector.endpoint).await;
    let _worker = router.worker(FakeWorker::default()).await;
    let mut client = router.client().await;
    within(client.generate(named("last", Some("01"))))
        .await
        .unwrap();
    router.shutdown.request();
    router.ended().await;
    let spans = collector.rest();
    assert_eq!(
        of(&spans, "text_completion fake")[0].attributes["gen_ai.response.id"],
        "last"
    );
}

#[tokio::test]
async fn times_of_all_calls_are_sent_as_histograms() {
    let mut collector = Collector::start(&[200]).await;
    let router = traced(&collector.endpoint).await;
    let _worker = router.worker(FakeWorker::default()).await;
    let mut client = router.client().await;
    for (name, sampled) in [("one", "01"), ("two", "00")] {
        // Times count whether a trace is recorded or not.
        within(client.generate(named(name, Some(sampled))))
            .await
            .unwrap();
    }
    let mut unknown = named("three", None);
    unknown.get_mut().model = Some("unknown".into());
    within(client.generate(unknown)).await.unwrap_err();
    let http = router.bound.http.clone().unwrap();
    let mut connection = TcpStream::connect(http).await.unwrap();
    let bad = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer sesame\r\n\
               connection: close\r\ncontent-type: application/json\r\ncontent-length: 1\r\n\r\n{";
    connection.write_all(bad.as_bytes()).await.unwrap();
    let mut answer = String::new();
    within(connection.read_to_string(&mut answer))
        .await
        .unwrap();
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    router.shutdown.request();
    router.ended().await;
    let all = collector.last_times();
    let of = |name: &str, key: &str, value: &str| {
        let is_it = |one: &&Times| {
            one.name == name && one.attributes.get(key).is_some_and(|it| it == value)
        };
        all.iter().find(is_it).cloned()
    };
    for name in [
        "gen_ai.server.request.duration",
        "gen_ai.server.time_to_first_token",
        "gen_ai.server.time_per_output_token",
    ] {
        let times = of(name, "gen_ai.request.model", "fake")
            .unwrap_or_else(|| panic!("no {name} in {all:?}"));
        assert_eq!(times.count, 2, "{times:?}");
        assert_eq!(times.counts.iter().sum::<u64>(), 2);
        assert_eq!(times.counts.len(), times.bounds.len() + 1);
        assert!(times.sum_s > 0.0 && times.sum_s < 60.0, "{times:?}");
        assert_eq!(times.attributes["gen_ai.operation.name"], "text_completion");
        assert!(!times.attributes.contains_key("error.type"));
    }
    for reason in ["MODEL_NOT_FOUND", "_OTHER"] {
        let refused = of("gen_ai.server.request.duration", "error.type", reason);
        let refused = refused.unwrap_or_else(|| panic!("no {reason} in {all:?}"));
        assert_eq!(refused.count, 1);
        // Clients could fill a collector with names that they make up.
        let named = refused.attributes.contains_key("gen_ai.request.model");
        assert!(!named, "{refused:?}");
        let first = of("gen_ai.server.time_to_first_token", "error.type", reason);
        assert!(first.is_none(), "{first:?}");
    }
    let text = format!("{all:?}");
    assert!(!text.contains(SECRET) && !text.contains("sesame"), "{text}");
}

#[tokio::test]
async fn endpoint_that_cannot_be_read_is_refused_at_the_start() {
    for endpoint in [
        "collector:4318",
        "grpc://collector",
        "http://me:secret@host",
    ] {
        let mut config = RouterConfig::default();
        config.listen.http = None;
        config.listen.grpc = None;
        let socket = std::env::temp_dir().join(format!("spectrie-{:x}", rand::random::<u64>()));
        config.listen.worker = format!("unix:{}", socket.display());
        config.traces.endpoint = Some(endpoint.into());
        let served = app::serve(config, |_: &Bound| {}, Shutdown::new());
        let error = within(served).await.unwrap_err().to_string();
        assert!(
            error.contains("--otlp-endpoint") && error.contains("http://HOST"),
            "{error}"
        );
        assert!(!error.contains("secret"), "{error}");
        let _ = std::fs::remove_file(socket);
    }
}
