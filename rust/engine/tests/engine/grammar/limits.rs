//! How far an answer gets in its grammar is its own affair, up to the limits of the grammar library.

use crate::support::driver::{Driver, config, request};
use crate::support::expression::{id, usual_compiler};
use crate::support::model::VOCABULARY;
use spectrie_engine::{CostShape, EngineConfig, Request};
use spectrie_sampling::{Grammar, GrammarSpec};
use spectrie_types::{FinishKind, SpeculationMode};

/// Half a million states of the lexer, 16 times the limit; each text goes through others.
const MANY_STATES: &str = "[ab]*a[ab]{18}c";

/// The same, each state twice as large: those of 20,000 bytes are more than one text may take.
const LARGE_STATES: &str =
    "[ab]*(a[ab]{190}c|ba[ab]{170}d|bb[ab]{150}c|aab[ab]{180}d|abb[ab]{160}d)";

#[cfg(test)]
fn compiled(pattern: &str) -> Grammar {
    let spec = GrammarSpec::Regex(pattern.into());
    usual_compiler().compile(&spec).unwrap()
}

/// An answer of `num_tokens` of the bytes `a` and `b`, another for each seed.
fn wandering(seed: u64, num_tokens: u32, grammar: &Grammar) -> Request {
    let mut request = request(seed, &[3, 4, 5], num_tokens);
    request.sampling.temperature = 1.0;
    request.sampling.logit_bias = ["a", "b"].map(|text| (id(text), 50.0)).to_vec();
    request.choice_seed = seed;
    request.namespace = format!("n{seed}");
    request.grammar = Some(grammar.clone());
    request
}

#[cfg(test)]
fn driver(max_running: usize) -> Driver {
    let driver = Driver::new(EngineConfig {
        max_draft_tokens: 24,
        page_size: config().page_size,
        holdout_every: 0,
        drafting_cost_ms: Some(0.0),
        memory_bytes: 4 << 20,
        eos_token_ids: vec![0],
        ..EngineConfig::new(VOCABULARY, 6_000, 12_000, max_running)
    });
    // Rows cost next to nothing, so that as much as possible is drafted.
    let costs = driver
        .engine
        .set_costs(&[1, 512], &[1.0, 1.001], CostShape::default());
    costs.unwrap();
    driver
}

/// Tokens and end of every request.
fn answers(mut driver: Driver, requests: Vec<Request>) -> Vec<(Vec<u32>, FinishKind)> {
    let handles: Vec<u64> = requests.iter().map(|request| request.handle).collect();
    for request in requests {
        driver.submit(request);
    }
    driver.run();
    let answer = |handle: &u64| (driver.tokens[handle].clone(), driver.finishes[handle].kind);
    handles.iter().map(answer).collect()
}

#[test]
fn answers_under_one_grammar_are_what_they_are_alone() {
    let seeds = 1..=8;
    let alone = seeds.clone().map(|seed| {
        let request = wandering(seed, 2_000, &compiled(MANY_STATES));
        answers(driver(1), vec![request])[0].clone()
    });
    let alone: Vec<_> = alone.collect();
    assert!(alone.iter().all(|(_, end)| *end == FinishKind::Length));
    for max_running in [1, 8] {
        let grammar = compiled(MANY_STATES);
        let all = seeds.clone().map(|seed| wandering(seed, 2_000, &grammar));
        assert!(answers(driver(max_running), all.collect()) == alone);
    }
}

/// A long answer under `pattern`, in company, without drafts and with them, the last time with tokens
/// drawn from packed steps.
#[cfg(test)]
fn plain_and_drafted(pattern: &str) -> [Vec<(Vec<u32>, FinishKind)>; 3] {
    let ways = [
        (SpeculationMode::Off, false),
        (SpeculationMode::Auto, false),
        (SpeculationMode::Auto, true),
    ];
    ways.map(|(speculation, packs)| {
        let grammar = compiled(pattern);
        let mut request = wandering(1, 10_000, &grammar);
        request.sampling.logit_bias = ["abab", "cab", "ba", "aa", "bb"]
            .map(|text| (id(text), 50.0))
            .to_vec();
        request.speculation = Some(speculation);
        let mut company = vec![request];
        company.extend((2..5).map(|seed| wandering(seed, 500, &grammar)));
        let mut driver = driver(4);
        driver.packs = packs;
        answers(driver, company)
    })
}

#[test]
fn an_answer_goes_on_after_more_states_than_one_lexer_may_take_with_drafts_as_without() {
    let [plain, drafted, packed] = plain_and_drafted(MANY_STATES);
    assert_eq!((plain[0].0.len(), plain[0].1), (10_000, FinishKind::Length));
    assert!(drafted == plain && packed == plain);
}

#[test]
fn an_answer_whose_text_takes_too_many_states_ends_at_the_same_token_with_drafts_as_without() {
    let [plain, drafted, packed] = plain_and_drafted(LARGE_STATES);
    assert_eq!(plain[0].1, FinishKind::Refused);
    assert!(drafted == plain && packed == plain);
}

#[test]
fn a_resumed_answer_has_the_limits_of_one_that_was_never_cut() {
    let whole = answers(driver(1), vec![wandering(1, 1_200, &compiled(MANY_STATES))]);
    for kept in [400, 1_100] {
        let mut request = wandering(1, 1_200, &compiled(MANY_STATES));
        request.emitted_token_ids = whole[0].0[..kept].to_vec();
        let rest = answers(driver(1), vec![request]);
        assert!(rest[0] == (whole[0].0[kept..].to_vec(), FinishKind::Length));
    }
}
