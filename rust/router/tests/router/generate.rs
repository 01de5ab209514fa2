//! Requests over real sockets, answered by a fake worker.

use crate::support::fake_worker::{END_TOKEN, FakeWorker};
use crate::support::{TestRouter, request, within};
use std::time::Duration;

use spectrie_proto::v1;
use spectrie_proto::v1::generate_event::Event;
use spectrie_proto::worker_v1::{self, router_message::Message};
use tokio_stream::StreamExt as _;

async fn generate(router: &TestRouter, request: v1::GenerateRequest) -> v1::GenerateResponse {
    within(router.client().await.generate(request))
        .await
        .unwrap()
        .into_inner()
}

#[tokio::test]
async fn whole_answer_has_text_tokens_usage_and_reason() {
    let router = TestRouter::start().await;
    let _worker = router.worker(FakeWorker::default()).await;
    let response = generate(&router, request("hello, wörld")).await;
    let started = response.started.unwrap();
    assert_eq!(
        (started.model.as_str(), started.prompt_tokens),
        ("fake", 13)
    );
    let choice = &response.choices[0];
    assert_eq!(choice.text, "hello, wörld");
    assert_eq!(choice.token_ids.last(), Some(&END_TOKEN));
    let finished = choice.finished.as_ref().unwrap();
    assert_eq!(finished.reason(), v1::FinishReason::Stop);
    assert_eq!(
        finished.stop_reason,
        Some(v1::finished::StopReason::StopTokenId(END_TOKEN))
    );
    let usage = finished.usage.unwrap();
    assert_eq!((usage.prompt_tokens, usage.completion_tokens), (13, 14));
    assert_eq!(usage.accepted_prediction_tokens, None);
    let speculation = finished.speculation.as_ref().unwrap();
    assert_eq!(speculation.verify_steps + speculation.accepted_tokens, 13);
}

#[tokio::test]
async fn stream_is_started_then_deltas_then_finished() {
    let router = TestRouter::start().await;
    let _worker = router.worker(FakeWorker::default()).await;
    let mut asked = request("abcdefgh");
    asked.output = Some(v1::Output {
        sources: Some(true),
        ..Default::default()
    });
    let stream = within(router.client().await.generate_stream(asked))
        .await
        .unwrap();
    let events: Vec<_> = within(stream.into_inner().collect()).await;
    let mut text = String::new();
    let mut kinds = Vec::new();
    for event in events {
        match event.unwrap().event.unwrap() {
            Event::Started(_) => kinds.push('s'),
            Event::Delta(delta) => {
                assert_eq!(delta.token_ids.len(), delta.sources.len());
                text.push_str(&delta.text);
                kinds.push('d');
            }
            Event::Finished(_) => kinds.push('f'),
        }
    }
    assert_eq!(text, "abcdefgh");
    assert_eq!((kinds.first(), kinds.last()), (Some(&'s'), Some(&'f')));
    assert_eq!(kinds.iter().filter(|kind| **kind != 'd').count(), 2);
}

#[tokio::test]
async fn choices_have_their_own_seeds_and_ends() {
    let router = TestRouter::start().await;
    let mut worker = router.worker(FakeWorker::default()).await;
    let mut asked = request("abc");
    asked.sampling = Some(v1::Sampling {
        n: Some(2),
        seed: Some(0),
        ..Default::default()
    });
    let response = generate(&router, asked).await;
    assert_eq!(response.choices.len(), 2);
    for (index, choice) in response.choices.iter().enumerate() {
        assert_eq!((choice.index, choice.text.as_str()), (index as u32, "abc"));
        assert!(choice.finished.is_some());
    }
    let mut seeds = Vec::new();
    while seeds.len() < 2 {
        if let Message::Start(start) = worker.hear().await {
            seeds.push(start.choice_seed);
        }
    }
    seeds.sort_unstable();
    assert_eq!(seeds, [0, 0xE220_A839_7B1D_CDAF]);
}

#[tokio::test]
async fn stop_text_ends_the_answer_and_what_is_behind_it_does_not_count() {
    let router = TestRouter::start().await;
    // Slow and endless, so that the stop is found before the worker ends on its own.
    let step_time = Duration::from_millis(50);
    let mut worker = router
        .worker(FakeWorker {
            step_time,
            ..FakeWorker::default()
        })
        .await;
    let mut asked = request("one STOP two");
    asked.stopping = Some(v1::Stopping {
        stop: vec!["never".into(), "STOP".into()],
        ignore_eos: Some(true),
        ..Default::default()
    });
    let response = generate(&router, asked).await;
    let choice = &response.choices[0];
    assert_eq!(choice.text, "one ");
    assert_eq!(choice.token_ids.len(), "one STOP".len());
    let finished = choice.finished.as_ref().unwrap();
    assert_eq!(
        finished.stop_reason,
        Some(v1::finished::StopReason::StopText("STOP".into()))
    );
    assert_eq!(finished.usage.unwrap().completion_tokens, 8);
    loop {
        if let Message::Cancel(cancel) = worker.hear().await {
            assert_eq!((cancel.keep_tokens, cancel.finished), (Some(8), true));
            break;
        }
    }
}

#[tokio::test]
async fn max_tokens_and_stop_tokens_end_the_answer() {
    let router = TestRouter::start().await;
    let _worker = router.worker(FakeWorker::default()).await;
    let mut asked = request("abcdef");
    asked.stopping = Some(v1::Stopping {
        max_tokens: Some(2),
        ..Default::default()
    });
    let response = generate(&router, asked.clone()).await;
    assert_eq!(response.choices[0].text, "ab");
    let finished = response.choices[0].finished.as_ref().unwrap();
    assert_eq!(finished.reason(), v1::FinishReason::Length);
    let stop_token = u32::from(b'd');
    asked.stopping = Some(v1::Stopping {
        stop_token_ids: vec![stop_token],
        ..Default::default()
    });
    let response = generate(&router, asked).await;
    let finished = response.choices[0].finished.as_ref().unwrap();
    assert_eq!(
        finished.stop_reason,
        Some(v1::finished::StopReason::StopTokenId(stop_token))
    );
}

#[tokio::test]
async fn every_number_of_the_start_is_resolved() {
    let router = TestRouter::start().await;
    let mut worker = router.worker(FakeWorker::default()).await;
    let mut asked = request("abc");
    asked.sampling = Some(v1::Sampling {
        top_p: Some(0.25),
        ..Default::default()
    });
    asked.speculation = Some(v1::Speculation {
        enabled: Some(false),
        learn: Some(false),
        ..Default::default()
    });
    generate(&router, asked).await;
    let Message::Start(start) = worker.hear().await else {
        panic!("no start")
    };
    let sampling = start.sampling.clone().unwrap();
    assert_eq!(
        (sampling.temperature, sampling.top_p, sampling.top_k),
        (0.5, 0.25, 40)
    );
    assert!((sampling.repetition_penalty - 1.0).abs() < f32::EPSILON);
    assert_eq!(
        (start.max_tokens, start.namespace.as_str()),
        (512 - 3, "default")
    );
    assert_eq!(start.speculation(), worker_v1::SpeculationMode::Off);
    assert!(!start.learn && start.deadline_ms.is_some());
}

#[tokio::test]
async fn prediction_is_counted_token_by_token() {
    let router = TestRouter::start().await;
    let _worker = router.worker(FakeWorker::default()).await;
    let mut asked = request("abcdef");
    let content = v1::prediction::Content::Text("abcxyzw".into());
    asked.speculation = Some(v1::Speculation {
        prediction: Some(v1::Prediction {
            content: Some(content),
        }),
        ..Default::default()
    });
    let response = generate(&router, asked).await;
    let usage = response.choices[0]
        .finished
        .as_ref()
        .unwrap()
        .usage
        .unwrap();
    assert_eq!(
        (
            usage.accepted_prediction_tokens,
            usage.rejected_prediction_tokens
        ),
        (Some(3), Some(4))
    );
}

#[tokio::test]
async fn chat_is_rendered_and_text_calls_agree_with_it() {
    let router = TestRouter::start().await;
    let _worker = router.worker(FakeWorker::default()).await;
    let mut client = router.client().await;
    let message = v1::ChatMessage {
        role: "user".into(),
        content: "hi".into(),
    };
    let chat = v1::ChatPrompt {
        messages: vec![message],
        add_generation_prompt: None,
    };
    let rendered = client
        .apply_chat_template(v1::ApplyChatTemplateRequest {
            model: None,
            chat: Some(chat.clone()),
        })
        .await
        .unwrap()
        .into_inner();
    assert_eq!(rendered.text, "user: hi\nassistant: ");
    let asked = v1::GenerateRequest {
        prompt: Some(v1::generate_request::Prompt::Chat(chat)),
        ..Default::default()
    };
    assert_eq!(
        generate(&router, asked).await.choices[0].text,
        rendered.text
    );
    let tokenized = client
        .tokenize(v1::TokenizeRequest {
            text: rendered.text.clone(),
            ..Default::default()
        })
        .await
        .unwrap()
        .into_inner();
    assert_eq!(tokenized.token_ids, rendered.token_ids);
    let detokenized = client
        .detokenize(v1::DetokenizeRequest {
            token_ids: tokenized.token_ids,
            ..Default::default()
        })
        .await
        .unwrap()
        .into_inner();
    assert_eq!(detokenized.text, rendered.text);
}

#[tokio::test]
async fn dropped_stream_cancels_its_choices() {
    let router = TestRouter::start().await;
    let mut worker = router.worker(FakeWorker::default()).await;
    let mut asked = request("abc");
    asked.stopping = Some(v1::Stopping {
        ignore_eos: Some(true),
        ..Default::default()
    });
    asked.sampling = Some(v1::Sampling {
        n: Some(2),
        ..Default::default()
    });
    let mut stream = within(router.client().await.generate_stream(asked))
        .await
        .unwrap()
        .into_inner();
    assert!(within(stream.next()).await.unwrap().is_ok());
    drop(stream);
    let mut cancelled = Vec::new();
    while cancelled.len() < 2 {
        if let Message::Cancel(cancel) = worker.hear().await {
            assert!(!cancel.finished);
            cancelled.push(cancel.request_id);
        }
    }
    cancelled.dedup();
    assert_eq!(cancelled.len(), 2);
}

#[tokio::test]
async fn dropped_unary_call_cancels_its_choice() {
    let router = TestRouter::start().await;
    let mut worker = router.worker(FakeWorker::default()).await;
    let mut asked = request("abc");
    asked.stopping = Some(v1::Stopping {
        ignore_eos: Some(true),
        ..Default::default()
    });
    let mut client = router.client().await;
    let call = tokio::spawn(async move { client.generate(asked).await });
    assert!(matches!(worker.hear().await, Message::Start(_)));
    call.abort();
    while !matches!(worker.hear().await, Message::Cancel(_)) {}
}

#[tokio::test]
async fn lone_request_may_have_more_choices_than_places() {
    let router = TestRouter::with(|config| config.limits.in_flight_factor = 1).await;
    let _worker = router
        .worker(FakeWorker {
            max_running: 2,
            ..FakeWorker::default()
        })
        .await;
    let mut asked = request("abc");
    asked.sampling = Some(v1::Sampling {
        n: Some(8),
        ..Default::default()
    });
    let response = generate(&router, asked).await;
    assert_eq!(response.choices.len(), 8);
    assert!(response.choices.iter().all(|choice| choice.text == "abc"));
}

#[tokio::test]
async fn characters_split_between_tokens_arrive_whole() {
    let router = TestRouter::start().await;
    let _worker = router
        .worker(FakeWorker {
            tokens_per_step: 1,
            ..FakeWorker::default()
        })
        .await;
    let stream = within(router.client().await.generate_stream(request("é€😀")))
        .await
        .unwrap();
    let events: Vec<_> = within(stream.into_inner().collect()).await;
    let mut text = String::new();
    let mut num_tokens = 0;
    for event in events {
        if let Some(Event::Delta(delta)) = event.unwrap().event {
            assert!(
                !delta.text.contains(char::REPLACEMENT_CHARACTER),
                "{}",
                delta.text
            );
            num_tokens += delta.token_ids.len();
            text.push_str(&delta.text);
        }
    }
    assert_eq!((text.as_str(), num_tokens), ("é€😀", 10));
}
