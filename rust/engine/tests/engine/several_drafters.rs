//! Several drafters beside one model: no token changes, each request asks the one that is worth most, and the others are
//! tried.

use std::sync::Arc;

use crate::support::driver::{Driver, long_config, request};
use crate::support::head::{Head, Script, drafter, model};
use crate::support::model::FakeModel;
use crate::support::playing::{StillClock, check_visit, run_asking};
use crate::support::scenario::scenario;
use proptest::prelude::*;
use spectrie_engine::{DrafterInfo, Engine, EngineError};
use spectrie_types::{Source, SpeculationMode};

const SCRIPTS: [Script; 4] = [Script::Right, Script::Wrong, Script::Random, Script::Nan];
const MODES: [SpeculationMode; 4] = [
    SpeculationMode::Auto,
    SpeculationMode::Eagle2,
    SpeculationMode::Chain,
    SpeculationMode::Tiers,
];

/// The same for one namespace.
fn only(namespace: &str, info: DrafterInfo) -> DrafterInfo {
    DrafterInfo {
        namespaces: Some(vec![namespace.to_owned()]),
        ..info
    }
}

/// What drafters are asked in a step: who, and which level.
type Levels = Vec<(usize, usize)>;

/// Answers all levels of a step.
#[cfg(test)]
fn ask(heads: &mut [Head], engine: &Engine, model: &mut FakeModel, now_s: f64, ms: f64) -> Levels {
    heads.iter_mut().for_each(Head::begin);
    let mut levels = Levels::new();
    while let Some(plan) = engine.draft_plan(now_s).unwrap() {
        let before = levels.iter().filter(|one| one.0 == plan.drafter).count();
        assert_eq!(plan.level, before + 1);
        levels.push((plan.drafter, plan.level));
        let answers = heads[plan.drafter].answer(&plan, model);
        engine.draft_results(&answers.view(), ms).unwrap();
    }
    levels
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150,
        rng_seed: proptest::test_runner::RngSeed::Fixed(41),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn tokens_are_those_of_decoding_alone_whatever_they_answer(
        mut scenario in prop::sample::select(MODES.to_vec()).prop_flat_map(scenario),
        scripts in prop::collection::vec(prop::sample::select(SCRIPTS.to_vec()), 3),
        kinds in prop::sample::select(vec![
            vec![drafter(0.01), model(0.01)],
            vec![drafter(0.01), drafter(0.02)],
            vec![model(0.01), model(0.01)],
            vec![only("a", drafter(0.01)), model(0.01), drafter(0.03)],
        ]),
        overlap in any::<bool>(),
    ) {
        scenario.config.overlap = overlap;
        let mut heads: Vec<Head> = scripts.into_iter().map(Head::new).collect();
        let mut kinds = Some(kinds);
        let seen = run_asking(&scenario, Arc::new(StillClock), |engine, model, now_s| {
            for (number, kind) in kinds.take().into_iter().flatten().enumerate() {
                assert_eq!(engine.add_drafter(kind).unwrap(), number);
            }
            ask(&mut heads, engine, model, now_s, 0.01);
        });
        for visit in &scenario.visits {
            check_visit(&scenario, visit, &seen[&visit.request.handle]);
        }
    }
}

/// An engine whose forwards take 10 ms and half of one for each further row, with these drafters.
#[cfg(test)]
fn engine(infos: Vec<DrafterInfo>) -> (Driver, Vec<Head>) {
    let driver = Driver::still(long_config(), [10.0, 40.0]);
    let heads = infos.iter().map(|_| Head::new(Script::Right)).collect();
    for info in infos {
        driver.engine.add_drafter(info).unwrap();
    }
    (driver, heads)
}

/// A long request whose text repeats nothing, submitted and made known to the drafters.
#[cfg(test)]
fn noisy(driver: &Driver, heads: &mut [Head], handle: u64, namespace: &str) {
    let mut one = request(handle, &[handle as u32, 4, 9 + handle as u32], 3900);
    one.sampling.temperature = 2.0;
    one.choice_seed = handle;
    one.namespace = namespace.to_owned();
    driver.submit(one.clone());
    for head in heads {
        head.requests.push(one.clone());
    }
}

/// What was asked in each of so many steps.
#[cfg(test)]
fn steps(driver: &mut Driver, heads: &mut [Head], num_steps: usize) -> Vec<Levels> {
    let all = (0..num_steps).map(|_| {
        let levels = ask(heads, &driver.engine, &mut driver.model, 0.0, 0.1);
        driver.step().unwrap();
        levels
    });
    all.collect()
}

/// Steps in which a drafter was asked.
fn asked(steps: &[Levels], drafter: usize) -> usize {
    let is_asked = |levels: &&Levels| levels.iter().any(|one| one.0 == drafter);
    steps.iter().filter(is_asked).count()
}

/// Whether the second drafter is asked while the first one is wrong, and the first one where they change parts, on a text
/// of its own.
fn follows_the_one_that_is_right(text: u64) -> bool {
    let (mut driver, mut heads) = engine(vec![drafter(0.1), drafter(0.1)]);
    heads[0].script = Script::Wrong;
    noisy(&driver, &mut heads, text, "");
    steps(&mut driver, &mut heads, 150);
    let before = steps(&mut driver, &mut heads, 200);
    let (wrong, right) = (asked(&before, 0), asked(&before, 1));
    assert!(right > 100, "{right} of 200");
    assert!(wrong <= 20, "{wrong} of 200");
    // One request asks one drafter in a step.
    let is_one = |levels: &Levels| levels.windows(2).all(|pair| pair[0].0 == pair[1].0);
    assert!(before.iter().all(is_one));
    assert!(before.iter().any(|levels| levels.len() > 1));
    heads[0].script = Script::Right;
    heads[1].script = Script::Wrong;
    steps(&mut driver, &mut heads, 250);
    let after = steps(&mut driver, &mut heads, 200);
    let (right, wrong) = (asked(&after, 0), asked(&after, 1));
    let load = driver.engine.load();
    let of_each = load.drafters.iter().flatten();
    let rows: Vec<u64> = of_each.clone().map(|one| one.rows).collect();
    assert_eq!(rows, [heads[0].rows, heads[1].rows]);
    let levels: u64 = of_each.map(|one| one.levels).sum();
    assert_eq!(levels, load.head_levels);
    assert_eq!(load.head_rows, heads[0].rows + heads[1].rows);
    right > 100 && wrong <= 20
}

#[test]
fn the_one_that_is_right_is_asked_and_the_other_is_tried_until_it_is_better() {
    for text in 1..=8 {
        assert!(follows_the_one_that_is_right(text), "text {text}");
    }
}

#[test]
fn of_two_that_are_right_the_cheaper_one_is_asked() {
    for (dear, cheap) in [(0, 1), (1, 0)] {
        let mut infos = vec![model(0.2), model(0.2)];
        infos[dear] = drafter(2.0);
        let (mut driver, mut heads) = engine(infos);
        noisy(&driver, &mut heads, 1, "");
        steps(&mut driver, &mut heads, 150);
        let all = steps(&mut driver, &mut heads, 200);
        let (dear, cheap) = (asked(&all, dear), asked(&all, cheap));
        assert!(cheap > 100 && dear < 30, "{cheap} and {dear} of 200");
    }
}

#[test]
fn drafters_of_different_namespaces_have_their_turns_in_one_step() {
    let infos = vec![only("a", drafter(0.2)), only("b", model(0.2))];
    let (mut driver, mut heads) = engine(infos);
    noisy(&driver, &mut heads, 1, "a");
    noisy(&driver, &mut heads, 2, "b");
    let all = steps(&mut driver, &mut heads, 100);
    let both = all.iter().filter(|levels| {
        let is_asked = |drafter| levels.iter().any(|one| one.0 == drafter);
        is_asked(0) && is_asked(1)
    });
    let both = both.count();
    assert!(both > 5, "{both}, {}, {}", asked(&all, 0), asked(&all, 1));
    let accepted = driver.engine.load().accepted_by_source;
    for source in [Source::Head, Source::DraftModel] {
        assert!(accepted[source as usize] > 0, "{accepted:?}");
    }
    let mut alone = engine(Vec::new()).0;
    noisy(&alone, &mut [], 1, "a");
    noisy(&alone, &mut [], 2, "b");
    steps(&mut alone, &mut [], 40);
    for (handle, tokens) in &alone.tokens {
        assert_eq!(driver.tokens[handle][..tokens.len()], tokens[..]);
    }
}

#[test]
fn fixed_modes_ask_the_first_that_is_for_their_namespace() {
    for mode in [SpeculationMode::Eagle2, SpeculationMode::Chain] {
        let infos = vec![only("a", drafter(0.2)), model(0.1)];
        let (mut driver, mut heads) = engine(infos);
        for (handle, namespace) in [(1, "a"), (2, "b")] {
            let mut one = request(handle, &[handle as u32, 4, 9], 60);
            one.speculation = Some(mode);
            one.namespace = namespace.to_owned();
            driver.submit(one);
        }
        let all = steps(&mut driver, &mut heads, 12);
        // The first of the steps computes prompts.
        assert!(asked(&all, 0) >= 8 && asked(&all, 1) >= 8, "{all:?}");
        assert_eq!(heads[0].rows, heads[1].rows);
    }
}

#[test]
fn one_that_fails_is_given_up_and_the_other_goes_on() {
    let failing = 0;
    for infos in [
        vec![drafter(0.2), model(0.3)],
        vec![drafter(0.2), drafter(0.3)],
        vec![model(0.2), drafter(0.3)],
    ] {
        let (mut driver, mut heads) = engine(infos);
        noisy(&driver, &mut heads, 1, "");
        steps(&mut driver, &mut heads, 100);
        // Until a step asks it first.
        loop {
            heads.iter_mut().for_each(Head::begin);
            let mut plan = driver.engine.draft_plan(0.0).unwrap();
            if plan.as_ref().is_some_and(|plan| plan.drafter == failing) {
                break;
            }
            while let Some(level) = plan {
                let answers = heads[level.drafter].answer(&level, &mut driver.model);
                driver.engine.draft_results(&answers.view(), 0.3).unwrap();
                plan = driver.engine.draft_plan(0.0).unwrap();
            }
            driver.step().unwrap();
        }
        let before = driver.engine.load().drafters[failing].unwrap().levels;
        driver.engine.draft_failed().unwrap();
        let all = steps(&mut driver, &mut heads, 200);
        assert_eq!(asked(&all, failing), 0);
        // Tries go on.
        assert!(asked(&all, 1) > 0);
        let load = driver.engine.load();
        assert_eq!(load.drafters[failing].unwrap().levels, before);
        let mut alone = engine(Vec::new()).0;
        noisy(&alone, &mut [], 1, "");
        steps(&mut alone, &mut [], 40);
        let expected = &alone.tokens[&1];
        assert_eq!(driver.tokens[&1][..expected.len()], expected[..]);
    }
}

#[test]
fn there_are_four_at_most() {
    let (driver, _) = engine(vec![drafter(0.2); 4]);
    let refused = driver.engine.add_drafter(drafter(0.2));
    assert!(matches!(refused, Err(EngineError::Config { name, .. }) if name == "drafters"));
}
