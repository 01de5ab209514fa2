//! Two routers that share a simulated Redis, under random schedules: one dies, stands still, or loses its
//! connection to Redis; clients are cut, noticed or not, and go on at whichever router they find. Workers
//! have the troubles of one router's.

mod checks;
mod client;
mod gate;
mod line;
mod redis;
mod router;
mod scripts;
mod world;

use super::report::Report;
use super::{check_trouble, on_a_clock, play_all};
use world::Pair;

fn play(seed: u64) -> Result<Report, String> {
    on_a_clock(async move { Pair::new(seed).run().await })
}

#[test]
fn no_schedule_of_two_routers_loses_doubles_or_fails_a_token() {
    if let Some(sum) = play_all(0..2_000, play) {
        check_trouble(&sum);
        let counts = [
            sum.routers_lost,
            sum.routers_stopped,
            sum.lines_cut,
            sum.moved,
            sum.exact,
            sum.taught,
        ];
        assert!(counts.iter().all(|count| *count > 0), "{sum:?}");
    }
}

/// Each found something that no schedule before it did.
#[test]
fn schedules_that_found_faults_pass() {
    for seed in [3361, 4131, 7140] {
        assert_eq!(play(seed).err(), None, "schedule {seed}");
    }
}

/// Of those behind, 8009 and 8266 stop: a router that had Redis again died before it had written of a stream without
/// tokens, later than is allowed for. Whether that is too little, or the router too slow, is not decided.
#[test]
#[ignore = "deep: thousands of schedules"]
fn no_schedule_of_two_routers_of_many_loses_doubles_or_fails_a_token() {
    play_all(0..8_000, play);
}

#[test]
fn one_seed_gives_one_schedule_of_two_routers() {
    for seed in 0..20 {
        assert_eq!(play(seed), play(seed));
    }
}
