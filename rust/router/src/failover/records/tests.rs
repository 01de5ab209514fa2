//! What is kept, for how long, and at whose expense.

use proptest::collection::vec;
use proptest::prelude::*;
use spectrie_proto::{v1, worker_v1};
use spectrie_request::{OutputOptions, ResolvedRequest};

use super::*;
use crate::failover::RecordedChoice;

const WINDOW: Duration = Duration::from_secs(60);

fn record(tenant: Option<&str>, id: &str, num_tokens: usize) -> Record {
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
        deadline_ms: 0,
        form: None,
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
    assert_eq!(records.tenants_of("1"), [Some("b".to_owned())]);
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
