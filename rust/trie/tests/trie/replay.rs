//! Replays of texts small enough to count by hand.

use spectrie_trie::replay::{MemoryMode, Replay, ReplayConfig, ReplayReport, ReplayRequest};
use spectrie_trie::{MemoryConfig, TokenId};
use spectrie_types::Source;

fn replay(config: ReplayConfig, requests: &[ReplayRequest<'_>]) -> ReplayReport {
    let mut replay = Replay::new(config).expect("valid settings");
    for request in requests {
        replay.push(request).expect("a valid request");
    }
    replay.report()
}

fn online() -> ReplayConfig {
    ReplayConfig {
        memory: MemoryMode::Online,
        ..ReplayConfig::default()
    }
}

fn accepted(report: &ReplayReport, source: Source) -> u64 {
    report.accepted_by_source[source as usize - 1]
}

#[test]
fn text_that_repeats_nothing_takes_one_step_a_token() {
    let report = replay(
        ReplayConfig::default(),
        &[ReplayRequest::new(&[1, 2], &[3, 4, 5])],
    );
    assert_eq!((report.requests, report.output_tokens), (1, 3));
    assert_eq!((report.steps, report.accepted_tokens), (3, 0));
    assert_eq!(report.tokens_per_step, Some(1.0));
    assert_eq!(report.memory_tokens, 0);
    assert_eq!(report.bytes_per_token, None);
}

#[test]
fn a_step_that_accepts_all_that_is_left_counts_all_of_it() {
    // The answer repeats the prompt, whose end leads back to its beginning.
    let prompt = [1, 2, 3, 4, 5, 6, 7, 8, 1, 2];
    let config = ReplayConfig {
        max_nodes: 3,
        ..ReplayConfig::default()
    };
    let report = replay(config, &[ReplayRequest::new(&prompt, &[3, 4, 5])]);
    assert_eq!((report.steps, report.accepted_tokens), (1, 3));
    assert_eq!(report.tokens_per_step, Some(3.0));
    assert_eq!(accepted(&report, Source::Request), 3);
}

#[test]
fn no_nodes_is_plain_decoding() {
    let config = ReplayConfig {
        max_nodes: 0,
        ..ReplayConfig::default()
    };
    let report = replay(config, &[ReplayRequest::new(&[7; 20], &[7; 5])]);
    assert_eq!((report.steps, report.drafted_tokens), (5, 0));
    assert_eq!(report.accepted_per_drafted, None);
    assert_eq!(report.steps_by_drafted, [5]);
}

#[test]
fn finished_requests_teach_the_next_of_their_namespace_only_online() {
    let prompt: Vec<TokenId> = (100..110).collect();
    let output: Vec<TokenId> = (200..220).collect();
    let request = ReplayRequest::new(&prompt, &output);
    let other = ReplayRequest {
        namespace: "other",
        ..request
    };
    let cold = replay(ReplayConfig::default(), &[request, request]);
    assert_eq!(cold.accepted_tokens, 0);
    let apart = replay(online(), &[request, other]);
    assert_eq!(apart.accepted_tokens, 0);
    let together = replay(online(), &[request, request]);
    assert!(accepted(&together, Source::Shared) > 15);
    assert_eq!(together.memory_tokens, 60);
    assert!(together.bytes_per_token.unwrap() > 4.0);
    assert!(together.insert_tokens_per_second.unwrap() > 0.0);
}

#[test]
fn memory_stays_within_its_bytes_and_says_what_it_forgot() {
    let config = ReplayConfig {
        bounds: MemoryConfig {
            capacity_bytes: 128 << 10,
            ..MemoryConfig::default()
        },
        ..online()
    };
    let texts: Vec<Vec<TokenId>> = (0..40)
        .map(|request| (0..500).map(|token| request * 1000 + token).collect())
        .collect();
    let requests: Vec<_> = texts
        .iter()
        .map(|text| ReplayRequest::new(&text[..10], &text[10..]))
        .collect();
    let report = replay(config, &requests);
    assert!(report.memory_bytes <= 128 << 10);
    assert!(report.evicted_tokens > 10_000);
    assert_eq!(report.memory_tokens + report.evicted_tokens, 40 * 500);
}

#[test]
fn a_prediction_is_drafted_from_the_first_step() {
    let output: Vec<TokenId> = (200..220).collect();
    let request = ReplayRequest {
        prediction: &output,
        ..ReplayRequest::new(&[1, 2, 3], &output)
    };
    let report = replay(ReplayConfig::default(), &[request]);
    assert!(report.steps <= 4);
    assert!(accepted(&report, Source::Prediction) >= 16);
}

#[test]
fn a_request_that_is_refused_is_not_counted() {
    let mut replay = Replay::new(ReplayConfig::default()).unwrap();
    assert!(replay.push(&ReplayRequest::new(&[u32::MAX], &[1])).is_err());
    assert_eq!(replay.report().requests, 0);
}

#[test]
fn a_corpus_is_read_by_every_namespace_and_teaches_nothing() {
    let document: Vec<TokenId> = (200..240).collect();
    let mut replay = Replay::new(ReplayConfig::default()).unwrap();
    replay.add_documents("code", [document.as_slice()]).unwrap();
    let first = ReplayRequest::new(&document[..10], &document[10..]);
    let other = ReplayRequest {
        namespace: "other",
        ..first
    };
    replay.push(&first).unwrap();
    replay.push(&other).unwrap();
    let report = replay.report();
    assert!(accepted(&report, Source::Corpus) > 40, "{report:?}");
    assert_eq!(accepted(&report, Source::Shared), 0);
    assert_eq!(report.memory_tokens, 40);
    assert!(replay.add_documents("code", []).is_err());
}
