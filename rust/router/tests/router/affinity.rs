//! Conversations go to the worker that knows them.

use crate::support::fake_worker::FakeWorker;
use crate::support::{TestRouter, TestWorker, request, within};
use spectrie_proto::v1;
use spectrie_proto::worker_v1::Start;
use spectrie_proto::worker_v1::router_message::Message;

/// A prompt of so many tokens and what it is answered with: one conversation's, turn by turn.
async fn turn(router: &TestRouter, prompt_tokens: usize, max_tokens: u32) -> v1::GenerateResponse {
    let text: String = ('a'..='z').cycle().take(prompt_tokens).collect();
    let mut asked = request(&text);
    asked.stopping = Some(v1::Stopping {
        max_tokens: Some(max_tokens),
        ..Default::default()
    });
    within(router.client().await.generate(asked))
        .await
        .unwrap()
        .into_inner()
}

async fn start_at(worker: &mut TestWorker) -> Start {
    loop {
        if let Message::Start(start) = worker.hear().await {
            return start;
        }
    }
}

#[tokio::test]
async fn conversation_stays_with_its_worker_until_that_is_gone() {
    let router = TestRouter::start().await;
    let mut other = router.worker(FakeWorker::default()).await;
    // The first request goes to the second of two that are idle.
    let mut first = router
        .worker(FakeWorker {
            die_after_tokens: Some(20),
            ..FakeWorker::default()
        })
        .await;
    for prompt_tokens in [100, 160, 220] {
        turn(&router, prompt_tokens, 5).await;
        let start = start_at(&mut first).await;
        assert_eq!(start.prompt_ids.len(), prompt_tokens);
    }
    let answer = turn(&router, 280, 40).await;
    assert_eq!(answer.choices[0].token_ids.len(), 40);
    assert_eq!(start_at(&mut first).await.prompt_ids.len(), 280);
    assert_eq!(start_at(&mut other).await.prompt_ids.len(), 280);
    turn(&router, 340, 5).await;
    assert_eq!(start_at(&mut other).await.prompt_ids.len(), 340);
}
