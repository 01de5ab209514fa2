//! Replays with recorded answers of a head.

use spectrie_trie::replay::{
    AskRule, HeadAnswers, HeadEntry, HeadMode, Replay, ReplayConfig, ReplayReport, ReplayRequest,
};
use spectrie_trie::{HeadPrior, TokenId, TrieError, Weights};
use spectrie_types::Source;
use spectrie_types::seed::splitmix;

const LEVELS: usize = 5;

/// Bytes of a prior before the shares of four levels, three kinds and three prices.
const WEIGHT_BYTES: usize = HeadPrior::BYTES - 4 * 3 * 3 * size_of::<f32>();

/// Text that repeats nothing.
fn fresh(length: u32) -> Vec<TokenId> {
    (1000..1000 + length).collect()
}

/// Text that repeats itself with changes.
fn repeating(length: usize) -> Vec<TokenId> {
    let mut tokens: Vec<TokenId> = Vec::new();
    for index in 0..length {
        let chance = splitmix(index as u64) >> 16;
        let token = match tokens.len().checked_sub(13) {
            Some(before) if !chance.is_multiple_of(6) => tokens[before],
            _ => (chance >> 8) as u32 % 50,
        };
        tokens.push(token);
    }
    tokens
}

/// A head that gives what follows `probability`, and another token the rest.
fn answers(output: &[TokenId], probability: f32) -> HeadAnswers {
    let mut answers = HeadAnswers::default();
    for index in 0..output.len() {
        let levels = output[index..].iter().take(LEVELS).map(|&token| HeadEntry {
            likeliest: vec![(token, probability), (token + 7000, 1.0 - probability)],
            scored: Vec::new(),
        });
        answers.push(levels).expect("valid answers");
    }
    answers
}

fn replay(config: &ReplayConfig, request: &ReplayRequest<'_>) -> ReplayReport {
    let mut replay = Replay::new(config.clone()).expect("valid settings");
    replay.push(request).expect("a valid request");
    let report = replay.report();
    ReplayReport {
        draft_us_p50: None,
        draft_us_p99: None,
        update_us_p50: None,
        ..report
    }
}

fn with_head(mode: HeadMode) -> ReplayConfig {
    ReplayConfig {
        head: mode,
        ..ReplayConfig::default()
    }
}

fn accepted(report: &ReplayReport, source: Source) -> u64 {
    report.accepted_by_source[source as usize - 1]
}

#[test]
fn answers_that_are_off_change_no_figure() {
    let text = repeating(400);
    let bare = ReplayRequest::new(&text[..150], &text[150..]);
    let recorded = answers(bare.output, 0.9);
    let request = ReplayRequest {
        head: Some(&recorded),
        ..bare
    };
    let report = replay(&ReplayConfig::default(), &bare);
    assert!(report.accepted_tokens > 50);
    assert_eq!(replay(&ReplayConfig::default(), &request), report);
    // Nor does asking where nothing was recorded.
    assert_eq!(replay(&with_head(HeadMode::On), &bare), report);
}

#[test]
fn a_head_that_is_right_adds_as_many_tokens_as_it_has_levels() {
    let text = fresh(61);
    let bare = ReplayRequest::new(&text[..1], &text[1..]);
    let recorded = answers(bare.output, 0.9);
    let request = ReplayRequest {
        head: Some(&recorded),
        ..bare
    };
    assert_eq!(replay(&ReplayConfig::default(), &bare).accepted_tokens, 0);
    let report = replay(&with_head(HeadMode::On), &request);
    assert_eq!((report.steps, report.accepted_tokens), (10, 50));
    assert_eq!(accepted(&report, Source::Head), 50);
    assert_eq!(report.head_levels, 50);
    assert_eq!(report.head_answers, 50);
    let two_levels = ReplayConfig {
        ask: AskRule {
            levels: 2,
            rows: 1,
            ..AskRule::default()
        },
        ..with_head(HeadMode::On)
    };
    let report = replay(&two_levels, &request);
    assert_eq!((report.steps, report.head_rows), (20, 40));
}

#[test]
fn a_head_alone_reads_no_text() {
    let text = repeating(400);
    let bare = ReplayRequest::new(&text[..150], &text[150..]);
    let recorded = answers(bare.output, 0.6);
    let request = ReplayRequest {
        head: Some(&recorded),
        prediction: &text[150..],
        ..bare
    };
    let report = replay(&with_head(HeadMode::Only), &request);
    assert!(report.accepted_tokens > 50);
    assert_eq!(accepted(&report, Source::Head), report.accepted_tokens);
    let without = ReplayRequest {
        head: None,
        ..request
    };
    let report = replay(&with_head(HeadMode::Only), &without);
    assert_eq!((report.drafted_tokens, report.accepted_tokens), (0, 0));
}

#[test]
fn a_path_that_the_output_did_not_take_is_asked_about_and_has_no_answer() {
    let text = fresh(31);
    let mut recorded = HeadAnswers::default();
    for &token in &text[1..] {
        // It names two others before what comes.
        let likeliest = vec![(5, 0.5), (6, 0.3), (token, 0.1)];
        let entry = HeadEntry {
            likeliest,
            scored: Vec::new(),
        };
        recorded
            .push([entry.clone(), entry])
            .expect("valid answers");
    }
    let request = ReplayRequest {
        head: Some(&recorded),
        ..ReplayRequest::new(&text[..1], &text[1..])
    };
    let config = ReplayConfig {
        ask: AskRule {
            rows: 2,
            ..AskRule::default()
        },
        ..with_head(HeadMode::On)
    };
    let report = replay(&config, &request);
    assert!(report.head_rows > report.head_answers);
    assert!(report.head_levels > report.head_answers);
}

#[test]
fn a_head_that_was_wrong_for_long_is_asked_on_and_found_right() {
    let text = fresh(121);
    let mut recorded = HeadAnswers::default();
    for (index, &token) in text[1..].iter().enumerate() {
        let said = if index < 60 { 7 } else { token };
        let likeliest = vec![(said, 0.9)];
        let scored = Vec::new();
        recorded
            .push([HeadEntry { likeliest, scored }])
            .expect("valid answers");
    }
    let request = ReplayRequest {
        head: Some(&recorded),
        ..ReplayRequest::new(&text[..1], &text[1..])
    };
    let report = replay(&with_head(HeadMode::On), &request);
    assert_eq!(report.head_answers, report.steps);
    assert!(report.accepted_tokens >= 28, "{}", report.accepted_tokens);
    // A server that waits for 64 steps before it tries again finds out later.
    let rarely = ReplayConfig {
        ask: AskRule {
            probe_every: 64,
            ..AskRule::default()
        },
        ..with_head(HeadMode::On)
    };
    let later = replay(&rarely, &request);
    assert!(later.head_answers < report.head_answers / 2);
    assert!(later.accepted_tokens < report.accepted_tokens);
}

#[test]
fn answers_for_another_output_are_refused() {
    let text = fresh(10);
    let recorded = answers(&text[..3], 0.5);
    let request = ReplayRequest {
        head: Some(&recorded),
        ..ReplayRequest::new(&text[..2], &text[2..])
    };
    let refused = Replay::new(ReplayConfig::default())
        .expect("valid settings")
        .push(&request);
    let message = refused.expect_err("too few answers").to_string();
    assert_eq!(
        message,
        "head has answers at 3 places; allowed: 8, one for each output token"
    );
    let config = ReplayConfig {
        ask: AskRule {
            least_gain: 1.5,
            ..AskRule::default()
        },
        ..ReplayConfig::default()
    };
    assert!(matches!(
        Replay::new(config),
        Err(TrieError::NotAProbability { .. })
    ));
}

#[test]
fn names_are_what_text_says_in_place_of_each_output_token() {
    let prompt = [1, 2, 3, 4, 1, 2, 3, 9, 1, 2];
    let replay = Replay::new(ReplayConfig::default()).expect("valid settings");
    let request = ReplayRequest::new(&prompt, &[3, 4, 77]);
    let names = replay.names(&request).expect("a valid request");
    assert_eq!(names.len(), 3);
    assert!(names[0].contains(&3), "{names:?}");
    assert!(names[1].contains(&9) && names[1].contains(&4), "{names:?}");
    assert_eq!(replay.report().steps, 0);
}

#[test]
fn training_at_rates_of_their_own_moves_the_weights_of_answers_alone() {
    let text = repeating(300);
    let recorded = answers(&text[100..], 0.3);
    let request = ReplayRequest {
        head: Some(&recorded),
        ..ReplayRequest::new(&text[..100], &text[100..])
    };
    let mut replay = Replay::new(with_head(HeadMode::On)).expect("valid settings");
    let start = Weights::default();
    replay.set_weights(&start, 0.0);
    replay.set_head_rate(0.05);
    replay.push(&request).expect("a valid request");
    let trained = replay.trained().expect("it was trained");
    assert_eq!(trained.to_bytes(), start.to_bytes());
    let prior = trained.head_prior(replay.head_counts());
    let shipped = HeadPrior::shipped();
    assert_ne!(
        prior.to_bytes()[..WEIGHT_BYTES],
        shipped.to_bytes()[..WEIGHT_BYTES]
    );
    // What it names is always right, so it adds more than is usual where the text expects something.
    let shares: Vec<f32> = prior.to_bytes()[WEIGHT_BYTES..]
        .chunks_exact(4)
        .map(|word| f32::from_le_bytes([word[0], word[1], word[2], word[3]]))
        .collect();
    assert!(shares[3] > 0.5 && shares[12] > 0.5, "{shares:?}");
    let mut read = Weights::default();
    read.set_head(&HeadPrior::from_bytes(&prior.to_bytes()).expect("whole"));
    assert_eq!(&read, trained);
}
