//! Log-probabilities over gRPC: named, cut and counted as their tokens are.

use crate::support::fake_worker::{END_TOKEN, FakeWorker};
use crate::support::{TestRouter, request, within};
use std::time::Duration;

use spectrie_proto::v1;
use tonic::{Code, Status};

async fn generate(
    worker: FakeWorker,
    request: v1::GenerateRequest,
) -> Result<v1::GenerateResponse, Status> {
    let router = TestRouter::start().await;
    let _worker = router.worker(worker).await;
    let response = within(router.client().await.generate(request)).await;
    response.map(tonic::Response::into_inner)
}

fn output(logprobs: Option<u32>, prompt_logprobs: Option<u32>) -> v1::Output {
    v1::Output {
        logprobs,
        prompt_logprobs,
        ..Default::default()
    }
}

#[tokio::test]
async fn each_token_has_its_bytes_and_text() {
    let mut asked = request("aö");
    asked.output = Some(output(Some(2), None));
    let response = generate(FakeWorker::default(), asked).await.unwrap();
    let choice = &response.choices[0];
    let entries = &choice.logprobs;
    let ids: Vec<u32> = entries.iter().map(|entry| entry.token_id).collect();
    assert_eq!(ids, choice.token_ids);
    assert_eq!(entries[0].logprob, Some(-0.125));
    assert_eq!(
        (&entries[0].bytes[..], entries[0].text.as_str()),
        (&b"a"[..], "a")
    );
    let second = &entries[0].top[1];
    assert_eq!(
        (second.token_id, second.text.as_str()),
        (u32::from(b'b'), "b")
    );
    // Half a character.
    assert_eq!(
        (&entries[1].bytes[..], entries[1].text.as_str()),
        (&[0xC3][..], "\u{FFFD}")
    );
    let end = entries.last().unwrap();
    assert_eq!((end.token_id, end.text.as_str()), (END_TOKEN, "<|end|>"));
    assert!(end.bytes.is_empty());
}

#[tokio::test]
async fn no_alternatives_are_told_with_zero_and_nothing_when_absent() {
    let mut asked = request("ab");
    asked.output = Some(output(Some(0), None));
    let response = generate(FakeWorker::default(), asked).await.unwrap();
    let entries = &response.choices[0].logprobs;
    assert_eq!(entries.len(), 3);
    assert!(
        entries
            .iter()
            .all(|entry| entry.top.is_empty() && entry.logprob.is_some())
    );
    let silent = generate(FakeWorker::default(), request("ab"))
        .await
        .unwrap();
    assert!(silent.choices[0].logprobs.is_empty());
}

#[tokio::test]
async fn entries_end_with_the_token_that_completes_the_stop_text() {
    let worker = FakeWorker {
        step_time: Duration::from_millis(20),
        tokens_per_step: 4,
        ..FakeWorker::default()
    };
    let mut asked = request("one STOP two");
    asked.output = Some(output(Some(1), None));
    asked.stopping = Some(v1::Stopping {
        stop: vec!["STOP".into()],
        ..Default::default()
    });
    let response = generate(worker, asked).await.unwrap();
    let choice = &response.choices[0];
    assert_eq!((choice.text.as_str(), choice.token_ids.len()), ("one ", 8));
    let text: String = choice
        .logprobs
        .iter()
        .map(|entry| &entry.text[..])
        .collect();
    assert_eq!(text, "one STOP");
}

#[tokio::test]
async fn first_choice_tells_of_the_prompt_whose_first_token_follows_nothing() {
    let mut asked = request("abc");
    asked.output = Some(output(None, Some(1)));
    asked.sampling = Some(v1::Sampling {
        n: Some(2),
        ..Default::default()
    });
    let response = generate(FakeWorker::default(), asked).await.unwrap();
    let [first, second] = [0, 1].map(|index: usize| {
        let finished = response.choices[index].finished.clone();
        finished.unwrap().prompt_logprobs
    });
    assert!(second.is_empty());
    let text: String = first.iter().map(|entry| &entry.text[..]).collect();
    assert_eq!(text, "abc");
    let values: Vec<_> = first.iter().map(|entry| entry.logprob).collect();
    assert_eq!(values, [None, Some(-0.125), Some(-0.125)]);
    assert_eq!((first[0].top.len(), first[1].top.len()), (0, 1));
}

#[tokio::test]
async fn worker_that_keeps_them_back_is_at_fault() {
    for (logprobs, prompt_logprobs) in [(Some(1), None), (None, Some(1))] {
        let worker = FakeWorker {
            hides_logprobs: true,
            ..FakeWorker::default()
        };
        let mut asked = request("abc");
        asked.output = Some(output(logprobs, prompt_logprobs));
        let status = generate(worker, asked).await.unwrap_err();
        assert_eq!(status.code(), Code::Internal);
        assert_eq!(status.message(), "the worker sent a bad output");
    }
}

#[tokio::test]
async fn prompt_too_long_to_be_told_is_refused_with_the_limit() {
    let worker = FakeWorker {
        max_context: 20_000,
        ..FakeWorker::default()
    };
    let mut asked = request(&"x".repeat(13_000));
    asked.output = Some(output(None, Some(20)));
    let status = generate(worker, asked).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(
        status.message().contains("allowed: up to 262144"),
        "{}",
        status.message()
    );
}
