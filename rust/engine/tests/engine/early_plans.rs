//! Which steps may begin before the results of those before them are known, and what ends them.

use std::sync::Arc;

use crate::support::driver::{Driver, config, request};
use crate::support::early::resolved;
use crate::support::expression::Expression;
use crate::support::packed::Packed;
use crate::support::playing::argmax_of_rows;
use spectrie_engine::{
    EngineConfig, EngineError, Plan, Request, StepResults, StopFinder, Verdicts,
};
use spectrie_types::{FinishKind, PackedSection, SpeculationMode};

#[cfg(test)]
fn plain() -> Driver {
    Driver::new(EngineConfig {
        speculation: SpeculationMode::Off,
        ..config()
    })
}

/// An engine that decodes `requests`, whose open plan has one row of each.
#[cfg(test)]
fn decoding(requests: Vec<Request>) -> (Driver, Plan) {
    let mut driver = plain();
    for one in requests {
        driver.submit(one);
    }
    driver.step();
    let plan = driver.plan().unwrap();
    assert!(plan.request_kind.iter().all(|&kind| kind == 1));
    (driver, plan)
}

#[cfg(test)]
fn begins_early(change: impl FnOnce(&mut Request)) -> bool {
    let mut changed = request(1, &[3, 4, 5], 20);
    change(&mut changed);
    let (driver, _) = decoding(vec![changed, request(2, &[6, 7, 8], 20)]);
    driver.engine.plan_early(0.0).unwrap().is_some()
}

#[cfg(test)]
fn commit(driver: &Driver, plan: &Plan, tokens: &[i32]) -> usize {
    let results = StepResults::from(Verdicts::drawn(tokens));
    let outputs = driver.engine.commit(plan.plan_id, &results, 1.0, 0.0);
    outputs.unwrap().len()
}

#[test]
fn a_step_begins_early_unless_its_draws_depend_on_tokens_the_host_has_not_seen() {
    assert!(begins_early(|_| ()));
    assert!(begins_early(|one| one.sampling.temperature = 1.0));
    assert!(begins_early(|one| one.sampling.logit_bias = vec![(3, 1.0)]));
    assert!(begins_early(|one| one.min_tokens = 9));
    assert!(begins_early(|one| one.stop_token_ids = vec![7]));
    assert!(begins_early(|one| one.bad_words = vec![vec![7]]));
    assert!(!begins_early(|one| one.bad_words = vec![vec![7, 8]]));
    assert!(!begins_early(|one| one.sampling.presence_penalty = 0.5));
    assert!(!begins_early(|one| one.sampling.repetition_penalty = 1.5));
    assert!(!begins_early(|one| one.logprobs = Some(1)));
    let expression = Expression::Many(Arc::new(Expression::text("a")));
    assert!(!begins_early(
        |one| one.grammar = Some(expression.compiled())
    ));
}

#[test]
fn a_step_waits_for_requests_that_arrived() {
    let (driver, _) = decoding(vec![request(1, &[3, 4, 5], 20)]);
    driver.submit(request(2, &[3, 4, 9], 20));
    assert!(driver.engine.plan_early(0.0).unwrap().is_none());
}

/// The open plan of an engine that decodes one request and computes a prompt of 20 tokens, in pieces.
#[cfg(test)]
fn mixed(change: impl FnOnce(&mut Request)) -> (Driver, Plan) {
    let mut driver = Driver::new(EngineConfig {
        speculation: SpeculationMode::Off,
        chunk_tokens: 8,
        ..config()
    });
    driver.submit(request(1, &[3, 4, 5], 20));
    driver.step();
    let mut second = request(2, &(10..30).collect::<Vec<u32>>(), 20);
    change(&mut second);
    driver.submit(second);
    let plan = driver.plan().unwrap();
    assert_eq!(plan.request_kind, [1, 0]);
    assert_eq!(plan.request_row_count, [1, 8]);
    (driver, plan)
}

#[test]
fn a_step_begins_early_beside_further_rows_of_a_prompt_and_behind_its_end() {
    let (driver, first) = mixed(|_| ());
    let second = driver.engine.plan_early(0.0).unwrap().unwrap();
    assert_eq!(second.request_kind, [1, 0]);
    assert_eq!(second.request_kv_len, [4, 8]);
    assert_eq!(second.row_token, [-2, 18, 19, 20, 21, 22, 23, 24, 25]);
    assert_eq!(second.row_position, [4, 8, 9, 10, 11, 12, 13, 14, 15]);
    assert_eq!(second.sample_rows, [0]);
    assert_eq!(commit(&driver, &first, &[7]), 1);
    let third = driver.engine.plan_early(0.0).unwrap().unwrap();
    assert_eq!(third.row_token, [-2, 26, 27, 28, 29]);
    assert_eq!(third.sample_rows, [0, 4]);
    let packed = Packed::new(&driver.engine, &third);
    // The prompt has 20 tokens; of the other one three and two are known, and one is on its way.
    assert_eq!(packed.section(PackedSection::Position), [6, 20]);
    assert_eq!(commit(&driver, &second, &[8]), 1);
    let fourth = driver.engine.plan_early(0.0).unwrap().unwrap();
    assert_eq!(fourth.request_kind, [1, 1]);
    assert_eq!(fourth.row_token, [-2, -3]);
    assert_eq!(fourth.row_position, [6, 20]);
    assert_eq!(commit(&driver, &third, &[9, 11]), 2);
    assert_eq!(commit(&driver, &fourth, &[12, 13]), 2);
    assert_eq!(driver.engine.load().generated_tokens, 7);
}

#[test]
fn a_first_token_may_depend_on_all_of_its_prompt() {
    let (driver, first) = mixed(|one| one.sampling.repetition_penalty = 1.5);
    driver.engine.plan_early(0.0).unwrap().unwrap();
    commit(&driver, &first, &[7]);
    let third = driver.engine.plan_early(0.0).unwrap().unwrap();
    let packed = Packed::new(&driver.engine, &third);
    assert_eq!(packed.section(PackedSection::SeenToken).len(), 20);
}

#[test]
fn prompts_that_want_more_than_a_token_wait() {
    let (driver, _) = mixed(|one| one.logprobs = Some(1));
    assert!(driver.engine.plan_early(0.0).unwrap().is_none());
}

#[test]
fn rows_of_a_prompt_whose_request_is_gone_keep_their_pages_until_they_are_computed() {
    let (driver, first) = mixed(|_| ());
    let second = driver.engine.plan_early(0.0).unwrap().unwrap();
    driver.engine.cancel(2, None, false);
    commit(&driver, &first, &[7]);
    let of_first = driver.engine.load().pages_used;
    // Its own two pages, and two that the forward writes to.
    assert_eq!(of_first, 4);
    assert_eq!(
        commit(&driver, &second, &[8]),
        2,
        "a token, and the end that came meanwhile"
    );
    assert_eq!(driver.engine.load().pages_used, 2);
}

#[test]
fn at_most_two_plans_are_in_flight() {
    let (driver, _) = decoding(vec![request(1, &[3, 4, 5], 20)]);
    assert!(driver.engine.plan_early(0.0).unwrap().is_some());
    assert!(driver.engine.plan_early(0.0).unwrap().is_none());
    assert!(driver.engine.plan(0.0).is_err());
}

#[test]
fn an_early_plan_names_the_rows_that_give_its_tokens() {
    // The second one ends with the next token in any case.
    let requests = vec![
        request(1, &[3, 4, 5], 20),
        request(2, &[9, 4, 6], 2),
        request(3, &[13, 4, 5, 6, 7], 20),
    ];
    let (driver, plan) = decoding(requests);
    let early = driver.engine.plan_early(0.0).unwrap().unwrap();
    assert_eq!(early.request_handle, [1, 3]);
    assert_eq!(early.row_token, [-2, -4]);
    assert_eq!(early.row_position, [4, 6]);
    assert_eq!(early.request_kv_len, [4, 6]);
    assert_eq!((early.sample_rows, early.top_rows), (vec![0, 1], vec![]));
    assert_eq!(plan.row_position, [3, 3, 5]);
}

#[test]
fn what_decides_the_draws_is_packed_for_the_token_after_the_next() {
    let mut one = request(1, &[3, 4, 5], 20);
    one.min_tokens = 3;
    one.stop_token_ids = vec![9];
    one.sampling.temperature = 1.0;
    let (driver, plan) = decoding(vec![one]);
    // One token is there; the open plan gives the second, and the early one may be the last.
    assert_eq!(
        Packed::new(&driver.engine, &plan).section(PackedSection::MaskedToken),
        [9]
    );
    let early = driver.engine.plan_early(0.0).unwrap().unwrap();
    let packed = Packed::new(&driver.engine, &early);
    assert_eq!(packed.section(PackedSection::MaskedToken), [9]);
    assert_eq!(packed.section(PackedSection::RowToken), [-2]);
    assert_eq!(packed.section(PackedSection::Position), [5]);
    commit(&driver, &plan, &[7]);
    let last = driver.engine.plan_early(0.0).unwrap().unwrap();
    let packed = Packed::new(&driver.engine, &last);
    assert!(packed.section(PackedSection::MaskedToken).is_empty());
    assert_eq!(packed.section(PackedSection::Position), [6]);
}

#[test]
fn a_forward_that_fails_ends_the_plan_behind_it_and_frees_its_pages() {
    let (mut driver, plan) = decoding(vec![request(1, &[3, 4, 5], 20)]);
    let early = driver.engine.plan_early(0.0).unwrap().unwrap();
    let outputs = driver.engine.fail(plan.plan_id, "broken", 0.0).unwrap();
    assert_eq!(outputs.len(), 1);
    let gone = driver.engine.fail(early.plan_id, "broken", 0.0);
    assert!(matches!(gone, Err(EngineError::UnknownPlan { .. })));
    assert!(driver.plan().is_none());
    assert_eq!(driver.engine.load().pages_used, 0);
}

#[test]
fn rows_behind_an_end_give_nothing_and_keep_their_page_until_they_are_computed() {
    let mut one = request(1, &[3, 4], 20);
    one.stop_token_ids = vec![9];
    // Page by page: its next token is the fourth, the one after it begins a page.
    let (mut driver, plan) = decoding(vec![one]);
    commit(&driver, &plan, &[8]);
    let plan = driver.plan().unwrap();
    let early = driver.engine.plan_early(0.0).unwrap().unwrap();
    assert_eq!(early.page_ids.len(), 2);
    assert_eq!(
        commit(&driver, &plan, &[9]),
        1,
        "the stop token and the end"
    );
    assert_eq!(
        driver.engine.load().pages_used,
        1,
        "which the early forward writes to"
    );
    assert!(driver.engine.plan(0.0).is_err(), "it is still in flight");
    assert_eq!(commit(&driver, &early, &[4]), 0);
    assert_eq!(driver.engine.load().pages_used, 0);
    assert!(driver.plan().is_none());
    // Nor is what it computed found again.
    let mut again = request(2, &[3, 4, 8, 9, 4, 4], 1);
    again.ignore_eos = true;
    driver.submit(again);
    driver.run();
    assert!(driver.finishes[&2].stats.cached_tokens <= 4);
}

/// Finds a stop text that ends with so many tokens.
#[derive(Clone, Debug)]
struct After(usize);

impl StopFinder for After {
    fn push(&mut self, tokens: &[u32]) -> Option<usize> {
        self.0 = self.0.saturating_sub(tokens.len());
        (self.0 == 0).then_some(3)
    }

    fn num_certain(&self) -> usize {
        3
    }

    fn boxed_clone(&self) -> Box<dyn StopFinder> {
        Box::new(self.clone())
    }
}

#[test]
fn a_stop_text_drops_the_row_behind_it() {
    let mut one = request(1, &[3, 4, 5], 20);
    one.stops = Some(Box::new(After(3)));
    let (driver, plan) = decoding(vec![one]);
    let second = driver.engine.plan_early(0.0).unwrap().unwrap();
    commit(&driver, &plan, &[7]);
    let third = driver.engine.plan_early(0.0).unwrap().unwrap();
    let results = StepResults::from(Verdicts::drawn(&[8]));
    let outputs = driver.engine.commit(second.plan_id, &results, 1.0, 0.0);
    let outputs = outputs.unwrap();
    assert_eq!(outputs[0].token_ids, [8]);
    assert_eq!(
        outputs[0].finish.as_ref().unwrap().kind,
        FinishKind::Complete
    );
    assert_eq!(commit(&driver, &third, &[6]), 0);
    assert_eq!(driver.engine.load().generated_tokens, 3);
}

/// What happened while an answer was computed with early steps wherever they may begin.
#[cfg(test)]
#[derive(Debug, Default)]
struct Asked {
    early: u64,
    waited: u64,
    calls: u64,
    /// Calls for drafts of early steps.
    calls_of_early: u64,
}

/// Answers a prompt where a step of 64 rows takes `wide_ms`, and one of a row 10.
#[cfg(test)]
fn asked(prompt: &[u32], wide_ms: f64) -> Asked {
    let mut driver = Driver::new(config());
    let costs = (driver.engine).set_costs(
        &[1, 64],
        &[10.0, wide_ms],
        spectrie_engine::CostShape::default(),
    );
    costs.unwrap();
    driver.submit(request(1, prompt, 90));
    let mut found = Asked::default();
    while let Some(plan) = driver.plan() {
        let values = driver.forward(&plan);
        let tokens = argmax_of_rows(&values);
        let before = driver.engine.load().draft_calls;
        let next = driver.engine.plan_early(driver.now_s).unwrap();
        found.calls_of_early += driver.engine.load().draft_calls - before;
        commit(&driver, &plan, &tokens);
        let Some(next) = next else {
            found.waited += u64::from(plan.request_kind == [1]);
            continue;
        };
        found.early += 1;
        let values = driver.forward(&resolved(next.clone(), &tokens));
        commit(&driver, &next, &argmax_of_rows(&values));
    }
    found.calls = driver.engine.load().draft_calls;
    found
}

#[test]
fn a_step_that_asks_for_drafts_waits_and_one_that_asks_nobody_begins_early() {
    // Nothing repeats, and a draft never pays.
    let dear = asked(&[3, 4, 5], 640.0);
    assert_eq!(dear.calls_of_early, 0);
    assert!(dear.calls > 0 && dear.early > 20, "{dear:?}");
    // Rows cost next to nothing.
    let cheap = asked(&[3, 4, 5, 3, 4, 5, 3, 4, 5], 10.1);
    assert_eq!(cheap.calls_of_early, 0);
    assert!(cheap.waited >= 1, "{cheap:?}");
}
