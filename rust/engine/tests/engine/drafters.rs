//! A drafter that the runner calls changes no token, whatever it answers, and is asked where it pays.

use std::sync::Arc;

use crate::left_out::num_left_out;
use crate::support::driver::{Driver, long_config, request};
use crate::support::head::{Head, Script, drafter};
use crate::support::playing::{StillClock, check_visit, run_asking};
use crate::support::scenario::{Scenario, scenario};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngSeed, TestRunner};
use spectrie_engine::{DraftAnswers, DrafterInfo, Engine, EngineError, Plan, Request};
use spectrie_types::{Source, SpeculationMode};

const SCRIPTS: [Script; 4] = [Script::Right, Script::Wrong, Script::Random, Script::Nan];

fn cases(cases: u32, seed: u64) -> ProptestConfig {
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Levels that were asked.
#[cfg(test)]
fn check(scenario: &Scenario, script: Script) -> u64 {
    check_disturbed(scenario, script, |_, _| ())
}

/// As [`check`]; `disturb` is called with the step before each level, while the step is in the making.
#[cfg(test)]
fn check_disturbed(scenario: &Scenario, script: Script, disturb: impl Fn(&Engine, usize)) -> u64 {
    let mut head = Head::new(script);
    let mut is_first = true;
    let mut step = 0;
    // By the machine's, a hiccup would keep the drafter from being asked.
    let seen = run_asking(scenario, Arc::new(StillClock), |engine, model, now_s| {
        if std::mem::take(&mut is_first) {
            engine.add_drafter(drafter(0.01)).unwrap();
        }
        head.ask_between(engine, model, now_s, 0.01, |engine| disturb(engine, step));
        step += 1;
    });
    for visit in &scenario.visits {
        check_visit(scenario, visit, &seen[&visit.request.handle]);
    }
    head.levels
}

proptest! {
    #![proptest_config(cases(150, 21))]

    #[test]
    fn tokens_are_those_of_decoding_alone_whatever_it_answers(
        scenario in scenario(SpeculationMode::Auto),
        script in prop::sample::select(SCRIPTS.to_vec()),
    ) {
        check(&scenario, script);
    }

    #[test]
    fn tokens_are_those_of_decoding_alone_beside_a_helper(
        mut scenario in scenario(SpeculationMode::Auto),
        script in prop::sample::select(SCRIPTS.to_vec()),
    ) {
        scenario.config.overlap = true;
        check(&scenario, script);
    }

    #[test]
    fn tokens_are_those_of_decoding_alone_whatever_is_called_between_levels(
        mut scenario in scenario(SpeculationMode::Auto),
        script in prop::sample::select(SCRIPTS.to_vec()),
        overlap in any::<bool>(),
    ) {
        scenario.config.overlap = overlap;
        check_disturbed(&scenario, script, |engine, step| {
            for visit in &scenario.visits {
                // One step before its own time, when the step that it is in is in the making.
                if visit.cancelled_at_step == Some(step + 1) {
                    engine.cancel(visit.request.handle, None, false);
                }
            }
            if step % 5 == 0 {
                engine.forget(["a", "b"][step / 5 % 2]).unwrap();
            }
            engine.learn("a", &[5, 6, 7, 8, step as u32 % 30]).unwrap();
            let late = engine.scratch_pages(1);
            assert!(matches!(late, Err(EngineError::LevelInFlight { .. })));
        });
    }
}

#[test]
fn random_traffic_asks_of_every_script() {
    // Guards the tests above: traffic that asks nothing would prove nothing.
    let mut runner = TestRunner::new(cases(1, 22));
    for script in SCRIPTS {
        let mut levels = 0;
        for _ in 0..30 {
            let scenario = scenario(SpeculationMode::Auto).new_tree(&mut runner);
            levels += check(&scenario.unwrap().current(), script);
        }
        assert!(levels > 100, "{script:?}: {levels}");
    }
}

/// An engine whose forwards take 10 ms and half of one for each further row, with a drafter if `first_ms` says so.
#[cfg(test)]
pub(crate) fn engine(first_ms: Option<f64>) -> Driver {
    let driver = Driver::still(long_config(), [10.0, 40.0]);
    if let Some(first_ms) = first_ms {
        driver.engine.add_drafter(drafter(first_ms)).unwrap();
    }
    driver
}

/// Requests of different beginnings, greedy and others.
fn requests(max_tokens: u32) -> Vec<Request> {
    let one = |handle: u64| {
        let mut one = request(handle, &[handle as u32, 4, 9 + handle as u32], max_tokens);
        one.sampling.temperature = if handle == 1 { 0.0 } else { 1.0 };
        one.choice_seed = handle;
        one
    };
    (1..4).map(one).collect()
}

/// Runs to the end; the plans, and levels in each step.
#[cfg(test)]
fn run(driver: &mut Driver, head: &mut Head, elapsed_ms: f64) -> (Vec<Plan>, Vec<usize>) {
    let (mut plans, mut levels) = (Vec::new(), Vec::new());
    loop {
        levels.push(head.ask(&driver.engine, &mut driver.model, driver.now_s, elapsed_ms));
        match driver.step() {
            Some(plan) => plans.push(plan),
            None => return (plans, levels),
        }
    }
}

/// All of a plan that its tokens depend on.
#[cfg(test)]
fn without_features(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    plan.request_feature.clear();
    plan.request_first.clear();
    plan.feature_moves.clear();
    plan.feature_copies.clear();
    plan
}

#[test]
fn without_a_drafter_plans_are_the_same_and_name_no_features() {
    let (mut asked, mut alone) = (engine(None), engine(None));
    for one in requests(60) {
        asked.submit(one.clone());
        alone.submit(one);
    }
    let (plans, levels) = run(&mut asked, &mut Head::new(Script::Right), 0.0);
    assert!(levels.iter().all(|&count| count == 0));
    assert_eq!(plans, alone.run());
    assert!(plans.len() > 20);
    for plan in plans {
        assert_eq!(plan, without_features(&plan));
    }
}

/// As [`without_features`], and without copies of slots, which go with whatever comes first.
#[cfg(test)]
fn bare(plan: &Plan) -> Plan {
    Plan {
        kv_move_src: Vec::new(),
        kv_move_dst: Vec::new(),
        ..without_features(plan)
    }
}

#[test]
fn one_that_sleeps_or_never_answers_changes_nothing_of_plans_but_features() {
    // One costs more than it could be worth, the other is asked again and again in vain.
    for (first_ms, is_asked) in [(1e4, false), (0.01, true)] {
        let (mut asked, mut alone) = (engine(Some(first_ms)), engine(None));
        for one in requests(60) {
            asked.submit(one.clone());
            alone.submit(one);
        }
        let mut head = Head::new(Script::Nan);
        let (plans, _) = run(&mut asked, &mut head, 0.0);
        assert_eq!(head.levels > 0, is_asked, "{}", head.levels);
        let plans: Vec<Plan> = plans.iter().map(bare).collect();
        let expected: Vec<Plan> = alone.run().iter().map(bare).collect();
        let first = plans
            .iter()
            .zip(&expected)
            .position(|(one, other)| one != other);
        assert_eq!((plans.len(), first), (expected.len(), None));
    }
}

#[test]
fn it_is_asked_for_the_namespaces_whose_text_it_learned_and_no_others() {
    let rows_asked = |namespace: &str| {
        let mut driver = engine(None);
        let info = DrafterInfo {
            namespaces: Some(vec!["mine".to_owned()]),
            ..drafter(0.2)
        };
        driver.engine.add_drafter(info).unwrap();
        let mut head = Head::new(Script::Right);
        for one in requests(60) {
            let one = Request {
                namespace: namespace.to_owned(),
                ..one
            };
            head.requests.push(one.clone());
            driver.submit(one);
        }
        let (plans, _) = run(&mut driver, &mut head, 0.2);
        // It keeps nothing of what others decode.
        let left_out = plans.iter().skip(2).map(num_left_out);
        (head.rows, left_out.sum::<usize>())
    };
    let (rows, left_out) = rows_asked("mine");
    assert!(rows > 0 && left_out == 0, "{rows} {left_out}");
    let (rows, left_out) = rows_asked("theirs");
    assert!(rows == 0 && left_out > 100, "{rows} {left_out}");
}

#[test]
fn its_tokens_are_accepted_where_it_is_right_and_levels_are_counted() {
    let (mut asked, mut alone) = (engine(Some(0.2)), engine(None));
    let mut head = Head::new(Script::Right);
    head.requests = requests(100);
    for one in requests(100) {
        asked.submit(one.clone());
        alone.submit(one);
    }
    let (plans, levels) = run(&mut asked, &mut head, 0.2);
    let expected = alone.run();
    assert_eq!(asked.tokens, alone.tokens);
    let (num, num_alone) = (plans.len(), expected.len());
    assert!(5 * num < 3 * num_alone, "{num} steps, {num_alone} without");
    let load = asked.engine.load();
    assert_eq!((load.head_levels, load.head_rows), (head.levels, head.rows));
    assert_eq!(levels.iter().sum::<usize>() as u64, head.levels);
    assert!(levels.contains(&3));
    let accepted = |driver: &Driver| driver.engine.load().accepted_by_source[Source::Head as usize];
    assert!(accepted(&asked) > 20, "{}", accepted(&asked));
    assert_eq!(accepted(&alone), 0);
}

#[test]
fn a_model_of_its_own_is_named_no_features_and_credited_as_such() {
    let mut driver = engine(None);
    let info = DrafterInfo {
        source: Source::DraftModel,
        needs_features: false,
        fill_ms: vec![0.02, 0.2],
        ..drafter(0.2)
    };
    driver.engine.add_drafter(info).unwrap();
    let mut head = Head::new(Script::Right);
    head.requests = requests(100);
    for one in requests(100) {
        driver.submit(one);
    }
    let (plans, levels) = run(&mut driver, &mut head, 0.2);
    assert!(levels.contains(&3));
    for plan in &plans {
        assert!(plan.request_feature.is_empty() && plan.feature_moves.is_empty());
    }
    let accepted = driver.engine.load().accepted_by_source;
    assert!(accepted[Source::DraftModel as usize] > 20);
    assert_eq!(accepted[Source::Head as usize], 0);
}

#[test]
fn one_that_is_wrong_falls_asleep_and_wakes_within_64_steps_of_being_right() {
    let mut driver = engine(Some(0.1));
    let mut one = request(1, &[3, 4, 9], 3900);
    // Text that repeats nothing.
    one.sampling.temperature = 2.0;
    driver.submit(one.clone());
    let mut head = Head::new(Script::Wrong);
    head.requests = vec![one];
    let mut steps_asked = |head: &mut Head, num_steps: usize| {
        let mut count = 0;
        for _ in 0..num_steps {
            let levels = head.ask(&driver.engine, &mut driver.model, 0.0, 0.1);
            count += usize::from(levels > 0);
            driver.step().unwrap();
        }
        count
    };
    steps_asked(&mut head, 60);
    let asleep = steps_asked(&mut head, 200);
    assert!(asleep <= 10, "asked in {asleep} of 200 steps");
    head.script = Script::Right;
    steps_asked(&mut head, 64 + 8);
    let awake = steps_asked(&mut head, 20);
    assert!(awake >= 5, "asked in {awake} of 20 steps");
}

#[test]
fn what_a_step_waited_for_answers_behind_the_one_before_is_no_time_of_its_own() {
    let seconds = |waited_ms: f64| {
        let mut driver = engine(None);
        driver.submit(request(1, &[3, 4, 9], 50));
        let mut sums = Vec::new();
        for waited_ms in [waited_ms, 0.0] {
            let plan = driver.plan().unwrap();
            driver.now_s += 0.1;
            if waited_ms > 0.0 {
                driver.engine.note_waited(waited_ms).unwrap();
            }
            driver.commit(&plan);
            sums.push(driver.engine.load().step_times.sum());
        }
        (sums[0], sums[1] - sums[0])
    };
    let ((whole, after), (rest, after_rest)) = (seconds(0.0), seconds(30.0));
    assert!((whole - rest - 0.03).abs() < 1e-9, "{whole} {rest}");
    assert!((after - after_rest).abs() < 1e-9, "{after} {after_rest}");
}

#[test]
fn one_that_fails_is_given_up_and_no_request_ends() {
    let (mut asked, mut alone) = (engine(Some(0.2)), engine(None));
    for one in requests(60) {
        asked.submit(one.clone());
        alone.submit(one);
    }
    let mut head = Head::new(Script::Right);
    for _ in 0..5 {
        head.ask(&asked.engine, &mut asked.model, 0.0, 0.2);
        asked.step().unwrap();
    }
    assert!(asked.engine.draft_plan(0.0).unwrap().is_some());
    asked.engine.draft_failed().unwrap();
    assert_eq!(head.ask(&asked.engine, &mut asked.model, 0.0, 0.2), 0);
    asked.run();
    alone.run();
    assert_eq!(asked.tokens, alone.tokens);
    assert_eq!(asked.engine.load().preemptions, 0);
}

#[test]
fn calls_that_are_out_of_order_are_refused_and_change_nothing() {
    let driver = engine(Some(0.2));
    driver.submit(request(1, &[3, 4, 9], 40));
    let none = DraftAnswers {
        ids: &[],
        probabilities: &[],
        scored: &[],
    };
    let no_level = driver.engine.draft_results(&none, 0.1);
    assert!(matches!(no_level, Err(EngineError::NoLevel)));
    assert!(matches!(
        driver.engine.draft_failed(),
        Err(EngineError::NoLevel)
    ));
    let mut driver = driver;
    driver.step().unwrap();
    let late = driver.engine.add_drafter(drafter(0.2));
    assert!(matches!(late, Err(EngineError::DrafterTooLate)));
    let level = driver.engine.draft_plan(0.0).unwrap().unwrap();
    for refused in [
        driver.engine.plan(0.0).map(drop),
        driver.engine.draft_plan(0.0).map(drop),
    ] {
        let is_refused = matches!(refused, Err(EngineError::LevelInFlight { level: 1 }));
        assert!(is_refused, "{refused:?}");
    }
    let short = driver.engine.draft_results(&none, 0.1);
    assert!(matches!(short, Err(EngineError::Logits { .. })));
    let ids = vec![1_000_000; 8 * level.num_rows()];
    let outside = DraftAnswers {
        ids: &ids,
        probabilities: &vec![0.1; ids.len()],
        scored: &vec![0.0; level.scored_token.len()],
    };
    let outside = driver.engine.draft_results(&outside, 0.1);
    assert!(matches!(outside, Err(EngineError::Logits { .. })));
    driver.engine.draft_failed().unwrap();
    driver.run();
    assert_eq!(driver.tokens[&1].len(), 40);
}

/// Rows that each of some requests took, one after the other, where `rest` comes between them.
#[cfg(test)]
fn rows_of_each(first_ms: Option<f64>, prompts: &[Vec<u32>], rest: fn(&Driver)) -> Vec<usize> {
    let mut driver = engine(first_ms);
    let rows = (1..).zip(prompts).map(|(handle, prompt)| {
        driver.submit(request(handle, prompt, 1));
        let rows = driver.run().iter().map(Plan::num_rows).sum();
        rest(&driver);
        rows
    });
    rows.collect()
}

#[test]
fn a_hit_with_one_computes_no_token_more_than_without_after_a_rest() {
    let text: Vec<u32> = (0..90).map(|at| at * 7 % 31 + 1).collect();
    let other = [&text[..50], &[40, 41, 42, 43, 44]].concat();
    let prompts = [text.clone(), text.clone(), text[..70].to_vec(), other];
    let rests: [fn(&Driver); 3] = [
        |_| {},
        |driver| {
            // A forward that no plan asked for.
            driver.engine.feature_plan().unwrap();
            driver.engine.features_copied().unwrap();
            driver.engine.scratch_pages(1).unwrap();
            assert_eq!(driver.engine.feature_plan().unwrap(), None);
        },
        |driver| drop(driver.engine.scratch_pages(1).unwrap()),
    ];
    let alone = rows_of_each(None, &prompts, rests[0]);
    assert!(alone[1] <= 4 && alone[3] <= 8, "{alone:?}");
    for rest in &rests[..2] {
        let with = rows_of_each(Some(0.2), &prompts, *rest);
        // One more where a page is copied in part.
        let is_right = |(with, alone): (&usize, &usize)| *with <= alone + 1;
        assert!(with.iter().zip(&alone).all(is_right), "{with:?} {alone:?}");
        assert_eq!(with[1], alone[1]);
    }
    // What it did not keep is lost, and not gone on from.
    let lost = rows_of_each(Some(0.2), &prompts, rests[2]);
    assert!(lost[1] > 80, "{lost:?}");
}
