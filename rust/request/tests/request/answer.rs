//! Tokens as they come, and the answer that they make.

use spectrie_proto::v1::FinishReason;
use spectrie_proto::v1::finished::StopReason;
use spectrie_proto::worker_v1::{FinishKind, RequestStats};
use spectrie_proto::{v1, worker_v1};
use spectrie_request::{Answer, AnswerDelta, ResolvedRequest, answer};

use crate::support::{END_TOKEN, files, resolved, text};

fn request(stop: &[&str]) -> ResolvedRequest {
    let stopping = v1::Stopping {
        stop: stop.iter().map(ToString::to_string).collect(),
        ..Default::default()
    };
    resolved(v1::GenerateRequest {
        stopping: Some(stopping),
        ..text("hi")
    })
    .unwrap()
}

fn tokens(bytes: &str) -> AnswerDelta {
    let token_ids: Vec<u32> = bytes.bytes().map(u32::from).collect();
    AnswerDelta {
        text: String::new(),
        sources: vec![1; token_ids.len()],
        logprobs: vec![worker_v1::TokenLogprob::default(); token_ids.len()],
        token_ids,
    }
}

#[test]
fn text_that_may_begin_a_stop_text_is_held_back() {
    let mut answer = Answer::new(&files(true).tokenizer, &request(&["END"])).unwrap();
    assert_eq!(answer.take(tokens("aE"), None).text, "a");
    assert_eq!(answer.take(tokens("N"), None).text, "");
    let last = answer.take(tokens("b"), Some(FinishKind::FinishLength));
    assert_eq!(last.text, "ENb");
    assert_eq!((answer.num_tokens(), answer.stop_text()), (4, None));
}

#[test]
fn what_follows_a_stop_text_neither_counts_nor_is_returned() {
    let mut answer = Answer::new(&files(true).tokenizer, &request(&["END"])).unwrap();
    let delta = answer.take(tokens("abENDcd"), None);
    assert_eq!(delta.text, "ab");
    assert_eq!(
        (
            delta.token_ids.len(),
            delta.sources.len(),
            delta.logprobs.len()
        ),
        (5, 5, 5)
    );
    assert_eq!(answer.take(tokens("more"), None), AnswerDelta::default());
    assert_eq!(answer.num_tokens(), 5);
    // Whatever the engine reports of an answer that was cut: it has ended well.
    let ending = answer.ending(FinishKind::FinishCancelled).unwrap();
    assert_eq!(ending.reason, FinishReason::Stop);
    assert_eq!(ending.stop, Some(StopReason::StopText("END".into())));
}

#[test]
fn end_of_the_engine_is_a_reason_or_none() {
    let mut answer = Answer::new(&files(true).tokenizer, &request(&[])).unwrap();
    let mut delta = tokens("a");
    delta.token_ids.push(END_TOKEN);
    assert_eq!(answer.take(delta, Some(FinishKind::FinishEos)).text, "a");
    let stop = Some(StopReason::StopTokenId(END_TOKEN));
    for (kind, expected) in [
        (
            FinishKind::FinishEos,
            Some((FinishReason::Stop, stop.clone())),
        ),
        (
            FinishKind::FinishStopToken,
            Some((FinishReason::Stop, stop)),
        ),
        (FinishKind::FinishComplete, Some((FinishReason::Stop, None))),
        (FinishKind::FinishLength, Some((FinishReason::Length, None))),
        (FinishKind::FinishCancelled, None),
        (FinishKind::FinishDeadline, None),
        (FinishKind::FinishRefused, None),
        (FinishKind::FinishInvalid, None),
        (FinishKind::FinishFailed, None),
    ] {
        let ending = answer
            .ending(kind)
            .map(|ending| (ending.reason, ending.stop));
        assert_eq!(ending, expected, "{kind:?}");
    }
}

#[test]
fn usage_splits_the_prediction_and_names_sources_that_gave_tokens() {
    let stats = RequestStats {
        cached_tokens: 1,
        accepted_prediction_tokens: 2,
        accepted_by_source: vec![0, 0, 3, 0, 0, 0, 0, 0],
        verify_steps: 4,
        ..Default::default()
    };
    let mut request = request(&[]);
    let usage = answer::usage(&request, 5, &stats);
    assert_eq!(
        (
            usage.prompt_tokens,
            usage.completion_tokens,
            usage.cached_tokens
        ),
        (2, 5, 1)
    );
    assert_eq!(
        (
            usage.accepted_prediction_tokens,
            usage.rejected_prediction_tokens
        ),
        (None, None)
    );
    request.prediction_ids = Some(vec![1, 2, 3]);
    let usage = answer::usage(&request, 5, &stats);
    assert_eq!(
        (
            usage.accepted_prediction_tokens,
            usage.rejected_prediction_tokens
        ),
        (Some(2), Some(1))
    );
    let files = files(true);
    let mut answer = Answer::new(&files.tokenizer, &request).unwrap();
    answer.take(tokens("a"), Some(FinishKind::FinishLength));
    let ending = answer.ending(FinishKind::FinishLength).unwrap();
    let finished = answer::finished(&request, 1, answer.num_tokens(), ending, &stats);
    let speculation = finished.speculation.unwrap();
    assert_eq!((finished.index, speculation.verify_steps), (1, 4));
    let by_source = speculation.accepted_by_source;
    assert_eq!(
        by_source,
        [v1::SourceCount {
            source: 2,
            tokens: 3
        }]
    );
}

#[test]
fn log_probabilities_get_the_text_and_bytes_of_their_tokens() {
    let entry = |token_id| worker_v1::TokenLogprob {
        token_id,
        logprob: Some(-0.5),
        top_ids: vec![98],
        top_logprobs: vec![-0.25],
    };
    let named = answer::with_text(&files(true).tokenizer, vec![entry(97), entry(END_TOKEN)]);
    assert_eq!(
        (named[0].text.as_str(), &named[0].bytes[..]),
        ("a", &b"a"[..])
    );
    assert_eq!(named[0].top[0].text, "b");
    // A special token has a name and no bytes.
    assert_eq!(
        (named[1].text.as_str(), named[1].bytes.len()),
        ("<|end|>", 0)
    );
}
