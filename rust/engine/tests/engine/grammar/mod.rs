//! What a grammar does to masks, drafts and ends; that drafts under one do nothing to tokens is in
//! `exactness.rs`.

mod limits;

use crate::support::driver::{Driver, config, num_drafts, request};
use crate::support::expression::{
    Expression, TOKENS, compiler, expression, id, regex, usual_compiler,
};
use crate::support::reference;
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};
use spectrie_engine::{CostShape, EngineConfig, Plan, Request};
use spectrie_sampling::{GrammarSpec, SamplingError};
use spectrie_types::{FinishKind, SpeculationMode};

/// Number of [`spectrie_types::Source::Grammar`].
const GRAMMAR: usize = 7;

fn held(handle: u64, pattern: &str, max_tokens: u32) -> Request {
    Request {
        grammar: Some(regex(pattern)),
        ignore_eos: false,
        ..request(handle, &[3, 4, 5], max_tokens)
    }
}

fn text(tokens: &[u32]) -> String {
    tokens.iter().map(|&id| TOKENS[id as usize]).collect()
}

/// A request whose model spells an object in the longest tokens.
fn usual(handle: u64) -> Request {
    let mut request = held(handle, "\\{\"name\": \"(ab|ca)\"\\}", 20);
    let spelling = ["{\"", "name", "\": ", "\"ab", "\"}"];
    request.sampling.logit_bias = spelling.map(|text| (id(text), 50.0)).to_vec();
    request
}

#[test]
fn exactly_the_tokens_that_the_grammar_allows_can_be_drawn() {
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 40,
        rng_seed: RngSeed::Fixed(3),
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let cases = (
        expression(),
        prop::collection::vec(any::<prop::sample::Index>(), 0..5),
    );
    let test = |(expression, picks): (Expression, Vec<prop::sample::Index>)| {
        let mut tokens: Vec<u32> = Vec::new();
        let mut place = expression.clone();
        for pick in picks {
            let next: Vec<u32> = (1..40).filter(|&token| place.allows(token)).collect();
            if next.is_empty() {
                break;
            }
            tokens.push(next[pick.index(next.len())]);
            place = place.after(TOKENS[tokens[tokens.len() - 1] as usize].as_bytes());
        }
        let mut driver = Driver::new(config());
        for token in 0..40 {
            let mut request = request(u64::from(token), &[3], tokens.len() as u32 + 1);
            request.emitted_token_ids.clone_from(&tokens);
            request.ignore_eos = false;
            request.sampling.logit_bias = vec![(token, 1e4)];
            request.grammar = Some(expression.compiled());
            driver.submit(request);
        }
        driver.run();
        for token in 0..40 {
            // If only the end is left, not even its token is drawn.
            let allowed = place.allows(token) && place.goes_on();
            let drawn = driver.tokens[&u64::from(token)] == [token];
            prop_assert_eq!(drawn, allowed, "token {} after {:?}", token, &tokens);
        }
        Ok(())
    };
    runner.run(&cases, test).unwrap();
}

#[test]
fn forced_text_is_drafted_without_any_memory_and_credited_to_the_grammar() {
    let mut driver = Driver::new(EngineConfig {
        memory_bytes: 0,
        ..config()
    });
    driver.submit(Request {
        learn: false,
        ..usual(1)
    });
    let plans = driver.run();
    assert_eq!(text(&driver.tokens[&1]), "{\"name\": \"ab\"}");
    // The prompt gives `{"`, one forward `name`, `": ` and the first open token, one the end.
    assert_eq!(driver.sources[&1], [1, 7, 7, 1, 1]);
    assert_eq!(plans.len(), 3);
    let finish = &driver.finishes[&1];
    assert_eq!(finish.kind, FinishKind::Complete);
    assert_eq!(finish.stats.accepted_by_source[GRAMMAR], 2);
    assert_eq!(driver.engine.load().accepted_by_source[GRAMMAR], 2);
}

#[test]
fn forced_text_is_spelt_as_the_model_usually_does_with_drafts_as_without() {
    let pattern = "\\{\"name\": \"[abc]{2,9}\"(, \"name\": \"[abc]{2,9}\"){2}\\}";
    let spec = GrammarSpec::Regex(pattern.into());
    let grammar = usual_compiler().compile(&spec).unwrap();
    let answer = |speculation, kept: &[u32]| {
        let mut driver = Driver::new(config());
        driver
            .engine
            .set_costs(&[1, 64], &[1.0, 1.1], CostShape::default())
            .unwrap();
        let mut request = request(1, &[3, 4, 5], 60);
        request.grammar = Some(grammar.clone());
        request.speculation = Some(speculation);
        request.emitted_token_ids = kept.to_vec();
        driver.submit(request);
        driver.run();
        let stats = &driver.finishes[&1].stats;
        let forced = stats.accepted_by_source[GRAMMAR];
        (driver.tokens[&1].clone(), stats.drafted_tokens, forced)
    };
    let (plain, drafted, _) = answer(SpeculationMode::Off, &[]);
    assert_eq!(plain[..3], ["{\"", "name", "\": "].map(id));
    assert_eq!(text(&plain).matches("name").count(), 3);
    assert!(!plain.contains(&id("n")) && !plain.contains(&id("na")));
    assert_eq!(drafted, 0);
    let (tokens, _, forced) = answer(SpeculationMode::Auto, &[]);
    assert_eq!(tokens, plain);
    assert!(forced >= 5, "{forced}");
    for kept in 0..plain.len() {
        let rest = answer(SpeculationMode::Auto, &plain[..kept]).0;
        assert_eq!(rest, plain[kept..]);
    }
}

#[test]
fn drafts_of_forced_text_obey_caps_modes_and_holdouts() {
    let most = |config: EngineConfig, change: fn(&mut Request)| {
        let mut driver = Driver::new(config);
        let mut request = usual(1);
        change(&mut request);
        driver.submit(request);
        let most = driver.run().iter().map(num_drafts).max();
        assert_eq!(text(&driver.tokens[&1]), "{\"name\": \"ab\"}");
        most.unwrap()
    };
    assert!(most(config(), |_| ()) >= 2);
    assert_eq!(most(config(), |one| one.max_draft_tokens = Some(1)), 1);
    assert_eq!(most(config(), |one| one.max_draft_tokens = Some(0)), 0);
    assert_eq!(
        most(config(), |one| one.speculation = Some(SpeculationMode::Off)),
        0
    );
    assert_eq!(
        most(config(), |one| one.speculation =
            Some(SpeculationMode::Prob)),
        0
    );
    let holdout = EngineConfig {
        holdout_every: 1,
        ..config()
    };
    assert_eq!(most(holdout, |_| ()), 0);
}

#[test]
fn a_forced_token_that_another_source_proposes_is_credited_to_that_source() {
    let mut driver = Driver::new(config());
    let mut request = usual(1);
    request.prediction_ids = ["{\"", "name", "\": "].map(id).to_vec();
    driver.submit(request);
    driver.run();
    assert_eq!(driver.sources[&1][..3], [1, 2, 2]);
}

#[test]
fn drafts_that_the_grammar_does_not_allow_are_not_sent() {
    let sends_zeros = |pattern: &str, speculation| {
        let mut driver = Driver::new(config());
        driver
            .engine
            .set_costs(&[1, 64], &[1.0, 1.01], CostShape::default())
            .unwrap();
        let mut request = held(1, pattern, 12);
        request.sampling.logit_bias = ["1", "0", "2"].map(|text| (id(text), 50.0)).to_vec();
        // After 1 and 2 comes 0, says the prompt.
        request.prompt_ids = ["1", "0", "2", "0"].map(id).repeat(4);
        request.speculation = Some(speculation);
        driver.submit(request);
        let plans = driver.run();
        let is_zero = |plan: &Plan| {
            let mut rows = plan.row_token.iter().zip(&plan.row_parent);
            rows.any(|(&token, &parent)| parent >= 0 && token == id("0") as i32)
        };
        // The first plan computes the prompt.
        plans[1..].iter().any(is_zero)
    };
    for mode in [SpeculationMode::Auto, SpeculationMode::Bfs] {
        assert!(sends_zeros("[0-2]*", mode), "{mode:?}");
        assert!(!sends_zeros("[12]*", mode), "{mode:?}");
    }
}

#[test]
fn an_answer_ends_with_the_token_after_which_only_its_end_is_left() {
    for (min_tokens, ignore_eos) in [(0, false), (0, true), (9, false), (9, true)] {
        let mut driver = Driver::new(config());
        driver.submit(Request {
            min_tokens,
            ignore_eos,
            ..held(1, "(ab|ba)c", 20)
        });
        driver.run();
        assert!(["abc", "bac"].contains(&text(&driver.tokens[&1]).as_str()));
        assert_eq!(driver.finishes[&1].kind, FinishKind::Complete);
    }
}

#[test]
fn eos_is_drawn_where_the_grammar_accepts_unless_it_is_ignored_or_too_early() {
    let run = |change: fn(&mut Request)| {
        let mut driver = Driver::new(config());
        let mut request = held(1, "ab*", 12);
        request.sampling.logit_bias = vec![(0, 100.0), (id("a"), 50.0)];
        change(&mut request);
        driver.submit(request);
        driver.run();
        (driver.tokens[&1].clone(), driver.finishes[&1].kind)
    };
    assert_eq!(run(|_| ()), (vec![id("a"), 0], FinishKind::Eos));
    let (tokens, kind) = run(|one| one.min_tokens = 4);
    assert!(tokens.len() > 4 && tokens.last() == Some(&0), "{tokens:?}");
    assert_eq!(kind, FinishKind::Eos);
    let (tokens, kind) = run(|one| one.ignore_eos = true);
    assert_eq!((tokens.len(), kind), (12, FinishKind::Length));
    assert!(!tokens.contains(&0));
}

#[test]
fn max_tokens_and_stop_tokens_cut_a_grammar_short() {
    let mut driver = Driver::new(config());
    driver.submit(held(1, "a{50}", 6));
    driver.submit(Request {
        stop_token_ids: vec![id(":")],
        ..held(2, "(a|b)(a|b):c", 9)
    });
    driver.run();
    let kind = |handle| driver.finishes[&handle].kind;
    assert_eq!((driver.tokens[&1].len(), kind(1)), (6, FinishKind::Length));
    assert_eq!(kind(2), FinishKind::StopToken);
    assert!(text(&driver.tokens[&2]).ends_with(':'));
}

#[test]
fn an_answer_that_bars_all_its_grammar_allows_ends_there() {
    let mut driver = Driver::new(config());
    driver.submit(Request {
        stop_token_ids: vec![id(":")],
        min_tokens: 5,
        ..held(1, "1:", 9)
    });
    driver.run();
    assert_eq!(driver.finishes[&1].kind, FinishKind::Complete);
    assert_eq!(driver.tokens[&1], [id("1")]);
}

#[test]
fn a_resumed_answer_goes_on_inside_its_grammar() {
    let request = usual(1);
    let mut driver = Driver::new(config());
    driver.submit(request.clone());
    driver.run();
    let whole = driver.tokens[&1].clone();
    for kept in 0..=whole.len() {
        let mut driver = Driver::new(config());
        driver.submit(Request {
            emitted_token_ids: whole[..kept].to_vec(),
            ..request.clone()
        });
        driver.run();
        assert_eq!(driver.tokens[&1], whole[kept..]);
        assert_eq!(driver.finishes[&1].kind, FinishKind::Complete);
    }
    let mut driver = Driver::new(config());
    driver.submit(Request {
        emitted_token_ids: vec![id("1")],
        ..request
    });
    driver.run();
    let finish = &driver.finishes[&1];
    assert_eq!(finish.kind, FinishKind::Refused);
    assert!(
        finish.message.as_ref().unwrap().contains("grammar"),
        "{finish:?}"
    );
}

#[test]
fn a_grammar_that_grows_too_complex_is_refused_alone() {
    let word = |index: u32| -> String {
        let bits = (0..12).map(|bit| if index >> bit & 1 == 1 { 'a' } else { 'b' });
        bits.collect()
    };
    let words: Vec<String> = (0..3000)
        .map(|index| format!("\"{}\"", word(index)))
        .collect();
    let spec = GrammarSpec::Lark(format!("start: {}", words.join(" | ")));
    let mut driver = Driver::new(config());
    let mut doomed = request(1, &[3, 4], 20);
    doomed.grammar = Some(compiler().compile(&spec).unwrap());
    let bystander = request(2, &[3, 4, 5], 20);
    driver.submit(doomed.clone());
    driver.submit(bystander.clone());
    driver.run();
    let finish = &driver.finishes[&1];
    assert_eq!(finish.kind, FinishKind::Refused);
    assert!(
        finish.message.as_ref().unwrap().contains("simplify"),
        "{finish:?}"
    );
    assert_eq!(driver.tokens[&2], reference::decode(&bystander).0);
    // What failed is not served from the cache again.
    assert!(compiler().compile(&spec).is_ok());
}

#[test]
fn constraints_that_cannot_be_used_are_refused_with_the_reason() {
    let refusal = |spec: GrammarSpec| -> String {
        let error = compiler().compile(&spec).unwrap_err();
        assert!(matches!(
            error,
            SamplingError::Config { .. } | SamplingError::Grammar { .. }
        ));
        error.to_string()
    };
    let schema = |text: &str| refusal(GrammarSpec::JsonSchema(text.into()));
    assert!(schema("{").contains("json_schema cannot be used: not JSON"));
    assert!(schema("[]").contains("must be a JSON object"));
    assert!(schema(r#"{"type": "strin"}"#).contains("strin"));
    assert!(schema(r#"{"type": "array", "uniqueItems": true}"#).contains("uniqueItems"));
    assert!(schema(r##"{"$ref": "#/$defs/none"}"##).contains("none"));
    assert!(
        schema(r##"{"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}"##)
            .contains("no text")
    );
    let deep = format!("{}{{}}{}", r#"{"items":"#.repeat(500), "}".repeat(500));
    assert!(schema(&deep).contains("recursion limit"));
    let wide = format!(
        r#"{{"allOf": [{}]}}"#,
        vec![r#"{"anyOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}"#; 30].join(",")
    );
    assert!(schema(&wide).contains("too large"), "{}", schema(&wide));

    let regex = |text: &str| refusal(GrammarSpec::Regex(text.into()));
    assert!(regex("(a").contains("unclosed group"));
    assert!(regex("a\\b").contains("regex"));
    assert!(regex(&"(".repeat(60_000)).contains("regex"));
    assert!(regex("x").contains("no text of this vocabulary"));
    assert!(regex(&"a".repeat(70_000)).contains("70000 bytes; allowed: at most 65536"));

    let lark = |text: &str| refusal(GrammarSpec::Lark(text.into()));
    assert!(lark("start: nothing").contains("nothing"));
    assert!(lark("").contains("grammar cannot be used"));
    assert!(lark("start: start").contains("no text"));
    assert!(lark(&format!("start: {}", "(".repeat(60_000))).contains("nested"));
    assert!(lark("start: a\na[max_tokens=3]: /[a-z]*/").contains("max_tokens="));

    let choice = |texts: Vec<String>| refusal(GrammarSpec::Choice(texts));
    assert!(choice(vec![]).contains("1 to 1024"));
    assert!(choice(vec![String::new()]).contains("an empty text"));
    assert!(choice(vec!["a".into(); 1025]).contains("1025 texts"));
    assert!(GrammarSpec::parse("xml", vec![]).is_err());
    assert!(GrammarSpec::parse("regex", vec![]).is_err());
}

#[test]
fn many_who_ask_at_once_all_get_their_grammar() {
    let compiler = compiler();
    std::thread::scope(|scope| {
        let askers: Vec<_> = (0..24)
            .map(|asker| {
                let spec = GrammarSpec::Regex(format!("[ab]{{1,{}}}", 1 + asker % 12));
                scope.spawn(move || compiler.compile(&spec).is_ok())
            })
            .collect();
        assert!(askers.into_iter().all(|asker| asker.join().unwrap()));
    });
}

#[test]
fn every_kind_of_constraint_holds_its_answer() {
    let run = |kind: &str, texts: &[&str]| {
        let texts = texts.iter().map(ToString::to_string).collect();
        let spec = GrammarSpec::parse(kind, texts).unwrap();
        assert_eq!(spec.name(), kind);
        let mut driver = Driver::new(config());
        driver.submit(Request {
            grammar: Some(compiler().compile(&spec).unwrap()),
            ignore_eos: false,
            ..request(1, &[3, 4, 5], 40)
        });
        driver.run();
        text(&driver.tokens[&1])
    };
    let schema = r#"{"type": "object", "properties": {"name": {"enum": [0, 1, 2]}},
        "required": ["name"], "additionalProperties": false}"#;
    let answers = ["{\"name\": 0}", "{\"name\": 1}", "{\"name\": 2}"];
    assert!(answers.contains(&run("json_schema", &[schema]).as_str()));
    assert!(run("json_object", &[]).starts_with('{'));
    assert!(["ab", "ba"].contains(&run("regex", &["ab|ba"]).as_str()));
    let lark = "start: WORD\nWORD: \"ab\" | \"name\"";
    assert!(["ab", "name"].contains(&run("grammar", &[lark]).as_str()));
    assert!(["a\":", "cab"].contains(&run("choice", &["a\":", "cab"]).as_str()));
}
