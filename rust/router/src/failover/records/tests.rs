//! What is kept, for how long, and at whose expense.

use proptest::collection::vec;
use proptest::prelude::*;
use spectrie_proto::{v1, worker_v1};
use spectrie_request::{OutputOptions, ResolvedRequest};

use super::*;
use crate::failover::RecordedChoice;

const WINDOW: Duration = Duration::from_secs(60);

pub(crate) fn record(tenant: Option<&str>, id: &str, num_tokens: usize) -> Record {
    let request = ResolvedRequest {
        request_id: id.into(),
        wire_name: id.into(),
        prompt_ids: vec![1],
        prediction_ids: None,
        sampling: worker_v1::SamplingParameters::default(),
        seed: 1,
        num_choices: 1,
        max_tokens: 1,
        stopping: v1::Stopping::default(),
        namespace: tenant.unwrap_or("default").into(),
        prompt_cache_key: None,
        learn: true,
        priority: 0,
        speculation: None,
        max_draft_tokens: None,
        output: OutputOptions {
            token_ids: true,
            sources: false,
            skip_special_tokens: true,
            logprobs: None,
            prompt_logprobs: None,
        },
        structured: None,
        tenant: None,
    };
    let choice = RecordedChoice {
        emitted: vec![1; num_tokens],
        ..RecordedChoice::default()
    };
    Record {
        token: ResumeToken::draw().unwrap(),
        request,
        tenant: tenant.map(Into::into),
        model: "m".into(),
        model_hash: String::new(),
        model_digest: String::new(),
        created: 0,
        begun_ms: 0,
        num_resumes: 0,
        deadline_ms: 0,
        form: None,
        holder: None,
        choices: vec![choice],
    }
}

#[test]
fn only_the_same_tenant_with_the_token_gets_a_record_and_only_once() {
    let mut records = Records::new(WINDOW, 1 << 20);
    let now = Instant::now();
    let (first, other) = (record(Some("a"), "r", 1), record(Some("b"), "r", 1));
    let (token, wrong) = (first.token.clone(), other.token.clone());
    records.keep(first, now);
    records.keep(other, now);
    assert!(records.take(Some("a"), "r", &wrong, now).is_none());
    assert!(records.take(Some("b"), "r", &token, now).is_none());
    assert!(records.take(None, "r", &token, now).is_none());
    assert!(records.take(Some("a"), "s", &token, now).is_none());
    assert!(records.take(Some("a"), "r", &token, now).is_some());
    assert!(records.take(Some("a"), "r", &token, now).is_none());
}

#[test]
fn records_go_when_their_time_is_over() {
    let mut records = Records::new(WINDOW, 1 << 20);
    let now = Instant::now();
    let (first, second) = (record(None, "a", 1), record(None, "b", 1));
    let tokens = [first.token.clone(), second.token.clone()];
    records.keep(first, now);
    records.keep(second, now + WINDOW / 2);
    assert!(records.take(None, "a", &tokens[0], now + WINDOW).is_none());
    assert_eq!(records.len(), 1);
    let late = now + WINDOW + WINDOW / 4;
    assert!(records.take(None, "b", &tokens[1], late).is_some());
    assert_eq!(records.num_bytes, 0);
}

#[test]
fn oldest_go_first_and_a_flood_of_one_tenant_costs_no_other_its_record() {
    let size = record(Some("a"), "00", 100).num_bytes();
    let mut records = Records::new(WINDOW, 10 * size);
    let now = Instant::now();
    let small = record(Some("b"), "00", 100);
    let token = small.token.clone();
    records.keep(small, now);
    let flood: Vec<_> = (0..30)
        .map(|index| record(Some("a"), &format!("{index:02}"), 100))
        .collect();
    let tokens: Vec<_> = flood.iter().map(|record| record.token.clone()).collect();
    for record in flood {
        records.keep(record, now);
    }
    assert!(records.take(Some("b"), "00", &token, now).is_some());
    for (index, token) in tokens.iter().enumerate() {
        let kept = records.take(Some("a"), &format!("{index:02}"), token, now);
        assert_eq!(kept.is_some(), index >= 21, "{index}");
    }
}

#[test]
fn records_that_have_ended_make_room_first() {
    let ended = |id: &str| {
        let mut record = record(None, id, 100);
        record.choices[0].end = Some(v1::Finished::default());
        record
    };
    let cut = record(None, "cut", 100);
    let token = cut.token.clone();
    let mut records = Records::new(WINDOW, cut.num_bytes() + 3 * ended("00").num_bytes());
    let now = Instant::now();
    records.keep(cut, now);
    for index in 0..30 {
        records.keep(ended(&format!("{index:02}")), now);
    }
    assert!(records.take(None, "cut", &token, now).is_some());
    let mut left = records.names(|_| true);
    left.sort();
    let left: Vec<_> = left.into_iter().map(|(_, id)| id).collect();
    assert_eq!(left, ["27", "28", "29"]);
}

#[test]
fn record_that_is_put_back_has_its_old_place_and_time() {
    let first = record(None, "a", 100);
    let (token, size) = (first.token.clone(), first.num_bytes());
    let mut records = Records::new(WINDOW, 2 * size);
    let now = Instant::now();
    records.keep(first, now);
    records.keep(record(None, "b", 100), now + WINDOW / 4);
    let later = now + WINDOW / 2;
    let taken = records.take(None, "a", &token, later).unwrap();
    records.put_back(taken, later);
    assert!(records.take(None, "a", &token, now + WINDOW).is_none());
    assert_eq!(records.len(), 1);
    let again = record(None, "a", 100);
    let token = again.token.clone();
    records.keep(again, later);
    let taken = records.take(None, "a", &token, later).unwrap();
    records.put_back(taken, later);
    records.keep(record(None, "c", 100), later);
    let left = records.names(|_| true);
    assert!(
        left.iter().all(|(_, id)| id != "b") && left.len() == 2,
        "{left:?}"
    );
}

#[test]
fn record_counts_all_that_it_holds() {
    let plain = || record(Some("a"), "r", 1);
    let size = plain().num_bytes();
    let grown = |grow: fn(&mut Record)| {
        let mut record = plain();
        grow(&mut record);
        record.num_bytes()
    };
    let long = || "x".repeat(1_000);
    assert!(
        grown(|record| record.request.prompt_cache_key = Some("x".repeat(1_000))) >= size + 1_000
    );
    assert!(grown(|record| record.model_digest = "x".repeat(1_000)) >= size + 1_000);
    assert!(grown(|record| record.choices[0].emitted.reserve_exact(1_000)) >= size + 4_000);
    assert!(grown(|record| record.tenant = Some("x".repeat(1_000))) >= size + 2_000);
    let end = v1::Finished {
        prompt_logprobs: vec![v1::TokenLogprob {
            bytes: long().into(),
            top: vec![v1::TopLogprob {
                bytes: long().into(),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let mut ended = plain();
    ended.choices[0].end = Some(end);
    assert!(ended.num_bytes() >= size + 2_000);
}

#[test]
fn record_larger_than_the_room_is_not_kept_and_costs_none() {
    let mut records = Records::new(WINDOW, 8 << 10);
    let now = Instant::now();
    let small = record(None, "a", 1);
    let token = small.token.clone();
    records.keep(small, now);
    records.keep(record(None, "b", 100_000), now);
    assert!(records.take(None, "a", &token, now).is_some());
    assert_eq!(records.len(), 0);
}

#[test]
fn forgotten_namespace_takes_its_records_along() {
    let mut records = Records::new(WINDOW, 1 << 20);
    let now = Instant::now();
    for (tenant, id) in [("a", "1"), ("a", "2"), ("b", "1")] {
        records.keep(record(Some(tenant), id, 1), now);
    }
    records.forget("a");
    assert_eq!(records.len(), 1);
    let names = records.names(|name| name == "1");
    assert_eq!(names, [(Some("b".to_owned()), "1".to_owned())]);
    assert!(records.drop_one(Some("b"), "1") && !records.drop_one(Some("b"), "1"));
}

#[test]
fn nothing_is_kept_without_a_window() {
    let mut records = Records::new(Duration::ZERO, 1 << 20);
    records.keep(record(None, "a", 1), Instant::now());
    assert!(!records.is_on() && records.len() == 0);
}

proptest! {
    #[test]
    fn sums_hold_whatever_comes_and_goes(
        steps in vec((0..3_usize, 0..6_u8, 0..400_usize, 0..20_u64), 1..200),
    ) {
        let mut records = Records::new(WINDOW, 20_000);
        let mut now = Instant::now();
        for (tenant, id, num_tokens, seconds) in steps {
            now += Duration::from_secs(seconds);
            let tenant = [None, Some("a"), Some("b")][tenant];
            let id = id.to_string();
            if num_tokens < 40 {
                records.drop_one(tenant, &id);
            } else {
                records.keep(record(tenant, &id, num_tokens), now);
            }
            let sum: usize = records.kept.values().map(|kept| kept.record.num_bytes()).sum();
            prop_assert_eq!(sum, records.num_bytes);
            prop_assert!(sum <= records.limit);
            let held: usize = records.by_size.iter().map(|(size, _)| size).sum();
            prop_assert_eq!(sum, held);
            prop_assert_eq!(records.by_age.len(), records.kept.len());
            prop_assert_eq!(records.holders.len(), records.by_size.len());
        }
    }
}
