//! Fixed modes that draft from a drafter of the runner's, and levels of mode tiers: tokens are those of decoding alone.

use std::sync::Arc;

use crate::support::driver::{Driver, long_config, request};
use crate::support::head::{Head, Script, drafter};
use crate::support::playing::{StillClock, check_visit, run_asking};
use crate::support::scenario::{Scenario, scenario};
use proptest::prelude::*;
use spectrie_engine::{EngineConfig, Request};
use spectrie_types::{Source, SpeculationMode};

const SCRIPTS: [Script; 4] = [Script::Right, Script::Wrong, Script::Random, Script::Nan];
const MODES: [SpeculationMode; 3] = [
    SpeculationMode::Eagle2,
    SpeculationMode::Chain,
    SpeculationMode::Tiers,
];

/// Traffic of an engine of mode `own`, where requests ask for any other one.
fn mixed(own: SpeculationMode) -> impl Strategy<Value = Scenario> {
    let asked = prop::collection::vec(
        prop::option::of(prop::sample::select(SpeculationMode::ALL.to_vec())),
        12,
    );
    (scenario(own), asked, 1_usize..6, 1_usize..=8).prop_map(|(mut scenario, asked, steps, top)| {
        (scenario.config.head_steps, scenario.config.head_top_k) = (steps, top);
        for (visit, mode) in scenario.visits.iter_mut().zip(asked.into_iter().cycle()) {
            visit.request.speculation = mode;
        }
        scenario
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 120,
        rng_seed: proptest::test_runner::RngSeed::Fixed(31),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn tokens_are_those_of_decoding_alone_in_every_mix_of_modes(
        scenario in prop::sample::select(MODES.to_vec()).prop_flat_map(mixed),
        script in prop::sample::select(SCRIPTS.to_vec()),
        overlap in any::<bool>(),
    ) {
        let mut scenario = scenario;
        scenario.config.overlap = overlap;
        let mut head = Head::new(script);
        let mut is_first = true;
        let seen = run_asking(&scenario, Arc::new(StillClock), |engine, model, now_s| {
            if std::mem::take(&mut is_first) {
                engine.add_drafter(drafter(0.01)).unwrap();
            }
            head.ask(engine, model, now_s, 0.01);
        });
        for visit in &scenario.visits {
            check_visit(&scenario, visit, &seen[&visit.request.handle]);
        }
    }
}

/// An engine whose forwards take 10 ms and half of one for each further row, with a drafter whose levels take as long
/// as a hundred forwards.
#[cfg(test)]
fn engine(mode: SpeculationMode) -> Driver {
    let driver = alone(mode);
    driver.engine.add_drafter(drafter(1000.0)).unwrap();
    driver
}

/// The same without a drafter.
#[cfg(test)]
fn alone(mode: SpeculationMode) -> Driver {
    let config = EngineConfig {
        speculation: mode,
        head_steps: 2,
        head_top_k: 3,
        ..long_config()
    };
    Driver::still(config, [10.0, 40.0])
}

/// Text that repeats nothing.
#[cfg(test)]
fn noise(handle: u64) -> Request {
    let mut one = request(handle, &[handle as u32, 4, 9], 80);
    one.sampling.temperature = 2.0;
    one.choice_seed = handle;
    one
}

/// Runs requests to their end; levels of each step, and their rows on average.
#[cfg(test)]
fn run(driver: &mut Driver, requests: &[Request]) -> (Vec<usize>, f64) {
    let mut head = Head::new(Script::Right);
    head.requests = requests.to_vec();
    for one in requests {
        driver.submit(one.clone());
    }
    let mut levels = Vec::new();
    loop {
        levels.push(head.ask(&driver.engine, &mut driver.model, driver.now_s, 1000.0));
        if driver.step().is_none() {
            return (levels, head.rows as f64 / head.levels.max(1) as f64);
        }
    }
}

#[cfg(test)]
fn accepted(driver: &Driver, handle: u64) -> u32 {
    driver.finishes[&handle].stats.accepted_by_source[Source::Head as usize]
}

#[test]
fn they_ask_as_many_levels_and_rows_as_they_say_whatever_that_costs() {
    for (mode, most_rows) in [
        (SpeculationMode::Chain, 1.0),
        (SpeculationMode::Eagle2, 2.0),
    ] {
        let mut driver = engine(mode);
        let (levels, rows) = run(&mut driver, &[noise(1)]);
        let asked = levels.iter().filter(|&&levels| levels == 2).count();
        assert!(asked + 8 > levels.len() && asked > 20, "{mode}: {levels:?}");
        assert!(levels.iter().all(|&levels| levels <= 2));
        // One row, and up to three below it.
        assert!(rows >= 1.0 && rows <= most_rows, "{mode}: {rows}");
        // The likeliest token of each level is right: two of three tokens are drafted.
        let accepted = accepted(&driver, 1);
        assert!((45..=60).contains(&accepted), "{mode}: {accepted}");
    }
}

#[test]
fn auto_beside_them_asks_for_nothing_that_does_not_pay() {
    let mut driver = engine(SpeculationMode::Auto);
    let fixed = Request {
        speculation: Some(SpeculationMode::Chain),
        ..noise(1)
    };
    let (levels, rows) = run(&mut driver, &[fixed, noise(2), noise(3)]);
    assert!(levels.iter().filter(|&&levels| levels > 0).count() > 20);
    assert!(rows < 1.01, "{rows}");
    let mut alone = engine(SpeculationMode::Auto);
    let (levels, _) = run(&mut alone, &[noise(2), noise(3)]);
    assert!(levels.iter().all(|&levels| levels == 0), "{levels:?}");
}

#[test]
fn tiers_counts_levels_of_one_row_each() {
    let mut driver = engine(SpeculationMode::Tiers);
    let (levels, rows) = run(&mut driver, &[noise(1)]);
    // Three at first; then seven, of which the drafter answers three.
    assert!(
        levels.iter().filter(|&&levels| levels == 3).count() > 10,
        "{levels:?}"
    );
    assert!(rows < 1.01, "{rows}");
    let mut alone = alone(SpeculationMode::Tiers);
    run(&mut alone, &[noise(1)]);
    // The model's runners-up name many of these tokens too, and are credited with them.
    let accepted = [&driver, &alone].map(|one| one.finishes[&1].stats.accepted_tokens);
    assert!(
        accepted[0] > 50 && accepted[0] > 2 * accepted[1],
        "{accepted:?}"
    );
}

#[test]
fn without_a_drafter_they_draft_nothing() {
    for mode in [SpeculationMode::Eagle2, SpeculationMode::Chain] {
        let mut driver = alone(mode);
        let (levels, _) = run(&mut driver, &[noise(1)]);
        assert!(levels.iter().all(|&levels| levels == 0));
        assert_eq!(driver.engine.load().drafted_tokens, 0);
        assert_eq!(driver.tokens[&1].len(), 80);
    }
}

#[test]
fn nothing_of_a_drafter_that_failed_is_drafted_later() {
    let mut driver = engine(SpeculationMode::Chain);
    let mut head = Head::new(Script::Right);
    head.requests = vec![noise(1)];
    driver.submit(noise(1));
    for _ in 0..5 {
        head.ask(&driver.engine, &mut driver.model, 0.0, 1.0);
        driver.step().unwrap();
    }
    // The first level is answered, the second fails.
    head.begin();
    let level = driver.engine.draft_plan(0.0).unwrap().unwrap();
    let answers = head.answer(&level, &mut driver.model);
    driver.engine.draft_results(&answers.view(), 1.0).unwrap();
    driver.engine.draft_plan(0.0).unwrap().unwrap();
    driver.engine.draft_failed().unwrap();
    let drafted = driver.engine.load().drafted_tokens;
    driver.run();
    assert_eq!(driver.engine.load().drafted_tokens, drafted);
    assert_eq!(driver.tokens[&1].len(), 80);
}
