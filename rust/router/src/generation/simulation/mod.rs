//! The router's own code under random schedules: a simulated clock and network, workers that die,
//! stall, drain, refuse and send nonsense, requests that end workers, clients that are cut.
//!
//! `SPECTRIE_SCHEDULES` chooses which are played: one seed alone (`283`, with a log), a range (`0..500`), or
//! one in some of it (`3..80003/4`). A schedule that breaks a rule prints its number.

#[path = "../../../../request/tests/request/byte_tokenizer.rs"]
#[allow(dead_code, clippy::unwrap_used)] // Of the tests of another crate.
mod byte_tokenizer;
mod client;
mod dice;
mod events;
mod model;
mod network;
mod pair;
mod report;
mod site;
mod world;

use std::time::Instant;

use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

use crate::sync::now;
use report::Report;
use world::{Broken, World};

/// Runs one schedule; gives what it broke.
fn play(seed: u64, broken: Option<Broken>) -> Result<Report, String> {
    on_a_clock(async move { World::new(seed, broken).run().await })
}

/// Runs a world on a clock of its own.
fn on_a_clock(world: impl Future<Output = Result<Report, String>>) -> Result<Report, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(world)
}

/// Which schedules the environment names.
fn named() -> Option<Schedules> {
    let named = std::env::var("SPECTRIE_SCHEDULES").ok()?;
    Some(
        Schedules::read(&named).expect("SPECTRIE_SCHEDULES is SEED, FIRST..END or FIRST..END/STEP"),
    )
}

/// Schedules of a range, one in each `step`.
#[derive(Debug, PartialEq, Eq)]
struct Schedules {
    range: std::ops::Range<u64>,
    step: usize,
}

impl Schedules {
    fn read(text: &str) -> Option<Self> {
        let (range, step) = text.split_once('/').unwrap_or((text, "1"));
        let range = if let Some((first, end)) = range.split_once("..") {
            first.parse().ok()?..end.parse().ok()?
        } else {
            let only = range.parse().ok()?;
            only..only + 1
        };
        let step = step.parse().ok().filter(|step| *step > 0)?;
        Some(Self { range, step })
    }
}

/// Milliseconds of a replay, by its own clock.
struct SimulatedTime(Instant);

impl FormatTime for SimulatedTime {
    fn format_time(&self, line: &mut Writer<'_>) -> std::fmt::Result {
        write!(line, "{}", now().duration_since(self.0).as_millis())
    }
}

/// Plays `schedules`, or those that the environment names; panics at the first that breaks a rule. Gives what they
/// brought about, none if the environment chose them.
fn play_all(
    schedules: std::ops::Range<u64>,
    play: impl Fn(u64) -> Result<Report, String>,
) -> Option<Report> {
    let named = named();
    let is_chosen = named.is_some();
    let Schedules { range, step } = named.unwrap_or(Schedules {
        range: schedules,
        step: 1,
    });
    if range.end - range.start == 1 {
        // A replay says what happens.
        let lines = tracing_subscriber::fmt().with_writer(std::io::stderr);
        let lines = lines.with_max_level(tracing::Level::DEBUG);
        let lines = lines.with_timer(SimulatedTime(now()));
        drop(lines.try_init());
    }
    let mut sum = Report::default();
    for seed in range.step_by(step) {
        match play(seed) {
            Ok(report) => sum.add(&report),
            Err(fault) => panic!("schedule {seed}: {fault}; replay: SPECTRIE_SCHEDULES={seed}"),
        }
    }
    println!("{sum:?}");
    (!is_chosen).then_some(sum)
}

/// Each kind of trouble happened to choices that had tokens, or nothing was shown.
fn check_trouble(sum: &Report) {
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

#[test]
fn no_schedule_loses_doubles_or_fails_a_token() {
    if let Some(sum) = play_all(0..2_000, |seed| play(seed, None)) {
        check_trouble(&sum);
    }
}

#[test]
#[ignore = "deep: a hundred thousand schedules"]
fn no_schedule_of_many_loses_doubles_or_fails_a_token() {
    if let Some(sum) = play_all(0..100_000, |seed| play(seed, None)) {
        check_trouble(&sum);
    }
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

#[test]
fn schedules_are_chosen_one_alone_or_some_of_a_range() {
    let of = |range, step| Some(Schedules { range, step });
    assert_eq!(Schedules::read("283"), of(283..284, 1));
    assert_eq!(Schedules::read("0..500"), of(0..500, 1));
    assert_eq!(Schedules::read("3..80003/4"), of(3..80_003, 4));
    for wrong in ["", "a", "1..", "1..2/0", "..3"] {
        assert_eq!(Schedules::read(wrong), None, "{wrong}");
    }
}
