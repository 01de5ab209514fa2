//! Answers go on where they were when their workers end.

use std::time::Duration;

use crate::support::fake_worker::{END_TOKEN, FakeWorker};
use crate::support::{TestRouter, TestWorker, request, within};
use spectrie_proto::v1;
use spectrie_proto::v1::generate_event::Event;
use spectrie_proto::worker_v1::router_message::Message;
use spectrie_proto::worker_v1::{FinishKind, Start};
use tokio::task::JoinHandle;
use tokio_stream::StreamExt as _;
use tonic::{Code, Status, Streaming};
use tonic_types::StatusExt as _;

const TEXT: &str = "abcdefghijklmnopqrstuvwxyz";

/// A worker that leaves its answers unfinished.
fn half() -> FakeWorker {
    FakeWorker {
        freezes_after: Some(6),
        ..FakeWorker::default()
    }
}

/// Adds two workers; the first request goes to `disturbed`, as the second of two that are idle.
async fn pair(
    router: &TestRouter,
    disturbed: FakeWorker,
    other: FakeWorker,
) -> (TestWorker, TestWorker) {
    let other = router.worker(other).await;
    (router.worker(disturbed).await, other)
}

/// What a stream brought.
#[derive(Debug, Default)]
struct Answer {
    text: String,
    token_ids: Vec<u32>,
    num_logprobs: usize,
    finished: Vec<v1::Finished>,
    error: Option<Status>,
}

impl Answer {
    async fn read(mut stream: Streaming<v1::GenerateEvent>) -> Self {
        let mut answer = Self::default();
        while let Some(event) = within(stream.next()).await {
            match event.map(|event| event.event) {
                Ok(Some(Event::Delta(delta))) => {
                    answer.text.push_str(&delta.text);
                    answer.token_ids.extend(delta.token_ids);
                    answer.num_logprobs += delta.logprobs.len();
                }
                Ok(Some(Event::Finished(finished))) => answer.finished.push(finished),
                Ok(_) => {}
                Err(status) => answer.error = Some(status),
            }
        }
        answer
    }

    /// Checks that it is `TEXT` and the end, each token once.
    fn assert_whole(&self) {
        assert!(self.error.is_none(), "{:?}", self.error);
        let tokens: Vec<_> = TEXT.bytes().map(u32::from).chain([END_TOKEN]).collect();
        assert_eq!((self.text.as_str(), &self.token_ids), (TEXT, &tokens));
        assert_eq!(self.finished.len(), 1);
        let usage = self.finished[0].usage.unwrap();
        assert_eq!(usage.completion_tokens as usize, tokens.len());
        assert_eq!(usage.prompt_tokens as usize, TEXT.len());
        let speculation = self.finished[0].speculation.as_ref().unwrap();
        assert_eq!(
            (speculation.accepted_tokens + speculation.verify_steps) as usize,
            tokens.len() - 1
        );
        let by_source = speculation.accepted_by_source.iter();
        let by_source: u32 = by_source.map(|count| count.tokens).sum();
        assert_eq!(by_source, speculation.accepted_tokens);
    }
}

async fn stream(router: &TestRouter, request: v1::GenerateRequest) -> Streaming<v1::GenerateEvent> {
    within(router.client().await.generate_stream(request))
        .await
        .unwrap()
        .into_inner()
}

/// Begins `TEXT` and waits for its first tokens.
async fn begun(router: &TestRouter) -> JoinHandle<Answer> {
    begun_with(router, request(TEXT)).await
}

/// Begins what is asked and waits for its first tokens.
async fn begun_with(router: &TestRouter, asked: v1::GenerateRequest) -> JoinHandle<Answer> {
    let mut events = stream(router, asked).await;
    let (first, begun) = tokio::sync::oneshot::channel();
    let reading = tokio::spawn(async move {
        let mut answer = Answer::default();
        while answer.token_ids.is_empty() {
            if let Some(Event::Delta(delta)) = within(events.next()).await.unwrap().unwrap().event {
                answer.text.push_str(&delta.text);
                answer.token_ids.extend(delta.token_ids);
                answer.num_logprobs += delta.logprobs.len();
            }
        }
        first.send(()).unwrap();
        let rest = Answer::read(events).await;
        answer.text.push_str(&rest.text);
        answer.token_ids.extend(&rest.token_ids);
        Answer {
            text: answer.text,
            token_ids: answer.token_ids,
            num_logprobs: answer.num_logprobs + rest.num_logprobs,
            ..rest
        }
    });
    within(begun).await.unwrap();
    reading
}

async fn start_at(worker: &mut TestWorker) -> Start {
    loop {
        if let Message::Start(start) = worker.hear().await {
            return start;
        }
    }
}

async fn metrics(router: &TestRouter) -> String {
    let address = router.bound.http.as_ref().unwrap();
    crate::support::get(address, "/metrics").await
}

#[tokio::test]
async fn answer_goes_on_at_another_worker_with_every_token_once() {
    let router = TestRouter::start().await;
    let (dying, mut second) = pair(&router, half(), FakeWorker::default()).await;
    let mut asked = request(TEXT);
    asked.output = Some(v1::Output {
        logprobs: Some(1),
        prompt_logprobs: Some(0),
        ..Default::default()
    });
    let reading = begun_with(&router, asked).await;
    let mut third = router.worker(FakeWorker::default()).await;
    dying.kill();
    let answer = within(reading).await.unwrap();
    answer.assert_whole();
    assert_eq!(answer.num_logprobs, answer.token_ids.len());
    let finished = &answer.finished[0];
    assert_eq!(finished.prompt_logprobs.len(), TEXT.len());
    assert!(!finished.numerics_changed);
    // Either of the others went on, and the remaining one learned the whole text once.
    let (start, learn) = match (second.hear().await, third.hear().await) {
        (Message::Start(start), Message::Learn(learn))
        | (Message::Learn(learn), Message::Start(start)) => (start, learn),
        heard => panic!("{heard:?}"),
    };
    assert_eq!(start.attempt, 1);
    let kept = start.emitted_token_ids.len();
    assert!((1..=6).contains(&kept), "{kept}");
    assert_eq!(start.emitted_token_ids, answer.token_ids[..kept]);
    assert_eq!(start.prompt_logprobs, None);
    assert_eq!(learn.token_ids, answer.token_ids);
    let text = metrics(&router).await;
    for line in [
        "spectrie_retries_total 1",
        "spectrie_generated_tokens_total{model=\"fake\"} 27",
        "spectrie_prompt_tokens_total{model=\"fake\"} 26",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

#[tokio::test]
async fn stream_of_the_only_worker_waits_for_its_successor_longer_than_a_new_request() {
    let router = TestRouter::with(|config| config.limits.max_waiting = 0).await;
    let first = router.worker(half()).await;
    let reading = begun(&router).await;
    first.kill();
    // Longer than `wait_s` of these tests.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let _second = router.worker(FakeWorker::default()).await;
    within(reading).await.unwrap().assert_whole();
}

#[tokio::test]
async fn stalled_worker_hands_its_answers_on() {
    let router = TestRouter::with(|config| config.workers.stall_timeout_s = 1.0).await;
    let frozen = FakeWorker {
        is_frozen: true,
        ..FakeWorker::default()
    };
    let mut frozen = router.worker(frozen).await;
    let events = stream(&router, request(TEXT)).await;
    start_at(&mut frozen).await;
    // It is given more time, as one that foresees longer steps: this machine may stand still for a second.
    let foreseeing = FakeWorker {
        longest_step_ms: 4_000.0,
        ..FakeWorker::default()
    };
    let _second = router.worker(foreseeing).await;
    Answer::read(events).await.assert_whole();
}

#[tokio::test]
async fn a_router_that_stood_still_keeps_its_workers() {
    let router = TestRouter::with(|config| config.workers.stall_timeout_s = 1.0).await;
    let slow = FakeWorker {
        step_time: Duration::from_millis(20),
        ..FakeWorker::default()
    };
    let _worker = router.worker(slow).await;
    let reading = begun(&router).await;
    // Router and worker run on this thread.
    std::thread::sleep(Duration::from_millis(2_500));
    within(reading).await.unwrap().assert_whole();
}

#[tokio::test]
async fn nonsense_moves_its_choice_alone_and_late_tokens_are_dropped() {
    let router = TestRouter::start().await;
    let bad = FakeWorker {
        bad_token: Some(7),
        ignores_cancels: true,
        ..FakeWorker::default()
    };
    let good = FakeWorker {
        step_time: Duration::from_millis(10),
        ..FakeWorker::default()
    };
    let (mut bad, mut good) = pair(&router, bad, good).await;
    let events = stream(&router, request(TEXT)).await;
    Answer::read(events).await.assert_whole();
    let (first, second) = (start_at(&mut bad).await, start_at(&mut good).await);
    assert_eq!((first.attempt, second.attempt), (0, 1));
    // What came together with the nonsense is computed again.
    let tokens: Vec<_> = TEXT.bytes().map(u32::from).collect();
    assert!(tokens[..6].starts_with(&second.emitted_token_ids));
    assert_eq!(router.num_workers("fake").await, 2);
}

#[tokio::test]
async fn late_refusals_and_failures_move_the_choice() {
    for kind in [
        FinishKind::FinishRefused,
        FinishKind::FinishFailed,
        FinishKind::FinishCancelled,
    ] {
        let router = TestRouter::start().await;
        let first = FakeWorker {
            ends: Some((8, kind)),
            ..FakeWorker::default()
        };
        let (_first, mut second) = pair(&router, first, FakeWorker::default()).await;
        let events = stream(&router, request(TEXT)).await;
        Answer::read(events).await.assert_whole();
        assert_eq!(start_at(&mut second).await.emitted_token_ids.len(), 9);
    }
}

#[tokio::test]
async fn failure_on_two_workers_ends_the_request() {
    let router = TestRouter::start().await;
    let mut workers = Vec::new();
    for _ in 0..3 {
        let ends = Some((0, FinishKind::FinishFailed));
        let worker = FakeWorker {
            ends,
            tokens_per_step: 0,
            ..FakeWorker::default()
        };
        workers.push(router.worker(worker).await);
    }
    let answer = Answer::read(stream(&router, request(TEXT)).await).await;
    assert_eq!(answer.error.unwrap().code(), Code::Internal);
    let text = metrics(&router).await;
    assert!(text.contains("spectrie_retries_total 1"), "{text}");
}

#[tokio::test]
async fn refusing_worker_is_asked_again_for_an_answer_that_began() {
    let router = TestRouter::start().await;
    let first = router.worker(half()).await;
    let reading = begun(&router).await;
    let refusal = Some("not now".to_owned());
    let mut refusing = router
        .worker(FakeWorker {
            refusal,
            ..FakeWorker::default()
        })
        .await;
    first.kill();
    for attempt in 1..=4 {
        assert_eq!(start_at(&mut refusing).await.attempt, attempt);
    }
    let _third = router.worker(FakeWorker::default()).await;
    within(reading).await.unwrap().assert_whole();
}

#[tokio::test]
async fn equal_fingerprint_is_preferred_and_another_one_is_said() {
    let router = TestRouter::start().await;
    let first = router.worker(half()).await;
    let reading = begun(&router).await;
    let other = router
        .worker(FakeWorker {
            fingerprint: "other".into(),
            ..half()
        })
        .await;
    let equal = router.worker(FakeWorker::default()).await;
    first.kill();
    let answer = within(reading).await.unwrap();
    answer.assert_whole();
    assert!(!answer.finished[0].numerics_changed);
    equal.kill();
    within(async {
        while router.num_workers("fake").await > 1 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    let reading = begun(&router).await;
    let _equal = router.worker(FakeWorker::default()).await;
    other.kill();
    let answer = within(reading).await.unwrap();
    answer.assert_whole();
    assert!(answer.finished[0].numerics_changed);
}

#[tokio::test]
async fn resumed_choices_ignore_a_full_queue() {
    let router = TestRouter::with(|config| config.limits.in_flight_factor = 1).await;
    let first = FakeWorker {
        max_running: 1,
        ..half()
    };
    let first = router.worker(first).await;
    let _reading = begun(&router).await;
    let mut second = router
        .worker(FakeWorker {
            max_running: 1,
            is_frozen: true,
            ..FakeWorker::default()
        })
        .await;
    let _other = stream(&router, request(TEXT)).await;
    assert_eq!(start_at(&mut second).await.attempt, 0);
    first.kill();
    assert_eq!(start_at(&mut second).await.attempt, 1);
}

#[tokio::test]
async fn resumed_choices_go_before_new_requests() {
    let router = TestRouter::with(|config| config.workers.wait_s = 20.0).await;
    let first = router.worker(half()).await;
    let reading = begun(&router).await;
    first.kill();
    within(async {
        while router.num_workers("fake").await > 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    let mut fresh = Vec::new();
    for _ in 0..4 {
        let mut client = router.client().await;
        fresh.push(tokio::spawn(
            async move { client.generate(request(TEXT)).await },
        ));
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    let mut second = router.worker(FakeWorker::default()).await;
    let start = start_at(&mut second).await;
    assert!(start.attempt == 1 && !start.emitted_token_ids.is_empty());
    within(reading).await.unwrap().assert_whole();
    for request in fresh {
        assert!(within(request).await.unwrap().is_ok());
    }
}

#[tokio::test]
async fn request_without_tokens_waits_for_the_successor_of_the_only_worker() {
    let router = TestRouter::with(|config| config.workers.wait_s = 20.0).await;
    let frozen = FakeWorker {
        is_frozen: true,
        ..FakeWorker::default()
    };
    let mut first = router.worker(frozen).await;
    let events = stream(&router, request(TEXT)).await;
    start_at(&mut first).await;
    first.kill();
    let _second = router.worker(FakeWorker::default()).await;
    Answer::read(events).await.assert_whole();
}

#[tokio::test]
async fn found_stop_text_needs_no_other_worker() {
    let router = TestRouter::start().await;
    let first = router
        .worker(FakeWorker {
            ignores_cancels: true,
            step_time: Duration::from_millis(10),
            ..FakeWorker::default()
        })
        .await;
    let mut asked = request(TEXT);
    asked.stopping = Some(v1::Stopping {
        stop: vec!["jkl".into()],
        ignore_eos: Some(true),
        ..Default::default()
    });
    let events = stream(&router, asked).await;
    let mut events = Box::pin(Answer::read(events));
    // The worker never says that it stopped; its end does.
    assert!(
        tokio::time::timeout(Duration::from_millis(500), &mut events)
            .await
            .is_err()
    );
    first.kill();
    let answer = within(events).await;
    assert!(answer.error.is_none(), "{:?}", answer.error);
    assert_eq!(answer.text, "abcdefghi");
    let usage = answer.finished[0].usage.unwrap();
    assert_eq!(usage.completion_tokens, 12);
}

#[tokio::test]
async fn poison_fails_alone_and_is_refused_for_a_while() {
    let router = TestRouter::with(|config| config.workers.wait_s = 20.0).await;
    let worker = || FakeWorker {
        dies_of: Some(b'!'),
        max_running: 16,
        step_time: Duration::from_millis(50),
        ..FakeWorker::default()
    };
    let address = router.bound.worker.clone();
    let keeping = tokio::spawn(async move {
        let mut lives = 0;
        loop {
            let (heard, _) = tokio::sync::mpsc::unbounded_channel();
            if worker()
                .run(&address, heard)
                .await
                .is_err_and(|status| status.code() == Code::Aborted)
            {
                lives += 1;
            }
            assert!(lives < 9, "a poison request goes on killing");
        }
    });
    let mut bystanders = Vec::new();
    while router.num_workers("fake").await == 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    for _ in 0..7 {
        bystanders.push(begun(&router).await);
    }
    let poison = Answer::read(stream(&router, request("!poison")).await);
    for _ in 0..8 {
        let events = stream(&router, request(TEXT)).await;
        bystanders.push(tokio::spawn(Answer::read(events)));
    }
    let status = poison.await.error.unwrap();
    assert_eq!(status.code(), Code::InvalidArgument);
    let details = status.get_error_details();
    assert_eq!(details.error_info().unwrap().reason, "ENDS_WORKERS");
    assert!(details.retry_info().is_none());
    for bystander in bystanders {
        within(bystander).await.unwrap().assert_whole();
    }
    let again = within(router.client().await.generate(request("!poison"))).await;
    let message = again.unwrap_err().message().to_owned();
    let left = message
        .split_once("refused for ")
        .and_then(|(_, rest)| rest.split_once(" s more"));
    let left: u32 = left.unwrap().0.parse().unwrap();
    assert!((200..=300).contains(&left), "{message}");
    let other = within(router.client().await.generate(request("?poison"))).await;
    assert_eq!(other.unwrap().into_inner().choices[0].text, "?poison");
    assert!(!keeping.is_finished());
    keeping.abort();
}
