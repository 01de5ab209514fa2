//! The router's own code under random schedules: a simulated clock and network, workers that die,
//! stall, drain, refuse and send nonsense, requests that end workers, clients that are cut.
//!
//! `SPECTRIE_SCHEDULE=SEED` replays one schedule alone; a failing one prints its number.

#[path = "../../../../request/tests/request/byte_tokenizer.rs"]
#[allow(dead_code, clippy::unwrap_used)] // Of the tests of another crate.
mod byte_tokenizer;
mod client;
mod dice;
mod events;
mod model;
mod network;
mod report;
mod world;

use report::Report;
use world::{Broken, World};

/// Runs one schedule; gives what it broke.
fn play(seed: u64, broken: Option<Broken>) -> Result<Report, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(World::new(seed, broken).run())
}

/// Plays `schedules`, or the one that the environment names; panics at the first that breaks a rule.
fn play_all(schedules: std::ops::Range<u64>) {
    let only: Option<u64> = std::env::var("SPECTRIE_SCHEDULE")
        .ok()
        .and_then(|seed| seed.parse().ok());
    if only.is_some() {
        // A replay says what happens.
        let lines = tracing_subscriber::fmt().with_writer(std::io::stderr);
        lines.with_max_level(tracing::Level::DEBUG).init();
    }
    let schedules = only.map_or(schedules, |seed| seed..seed + 1);
    let mut sum = Report::default();
    for seed in schedules {
        match play(seed, None) {
            Ok(report) => sum.add(&report),
            Err(fault) => panic!("schedule {seed}: {fault}; replay: SPECTRIE_SCHEDULE={seed}"),
        }
    }
    println!("{sum:?}");
    if only.is_none() {
        // Each kind of trouble happened to choices that had tokens, or nothing was shown.
        let counts = [
            sum.deaths,
            sum.stalls,
            sum.refusals,
            sum.faults,
            sum.drains,
            sum.late,
            sum.convicted,
            sum.dropped,
            sum.cut,
        ];
        assert!(counts.iter().all(|count| *count > 0), "{sum:?}");
        assert!(sum.resumed > sum.requests / 4, "{sum:?}");
    }
}

#[test]
fn no_schedule_loses_doubles_or_fails_a_token() {
    play_all(0..2_000);
}

#[test]
#[ignore = "deep: a hundred thousand schedules"]
fn no_schedule_of_many_loses_doubles_or_fails_a_token() {
    play_all(0..100_000);
}

#[test]
fn broken_variants_are_caught() {
    for broken in [Broken::ForgetsEmitted, Broken::TakesLateTokens] {
        let caught = (0..200).filter(|seed| play(*seed, Some(broken)).is_err());
        assert!(caught.count() > 10, "{broken:?} passes the checks");
    }
}

#[test]
fn one_seed_gives_one_schedule() {
    for seed in 0..20 {
        assert_eq!(play(seed, None), play(seed, None));
    }
}
