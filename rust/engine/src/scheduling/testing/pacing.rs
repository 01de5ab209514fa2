//! Tenants that take more than their share, beside others.

use std::sync::Arc;

use super::world::{self, World};
use crate::config::EngineConfig;
use crate::scheduling::composition::Pacing;

const STEPS: usize = 3_000;
/// Steps after which everybody is known.
const WARM: usize = 300;
/// One of the others asks every so many steps.
const ASK_EVERY: usize = 10;

fn config(max_slowdown: f64) -> EngineConfig {
    EngineConfig {
        max_slowdown,
        ..world::config(2_000, 64, 32)
    }
}

/// What steps with rows of the others took, and how many requests of the heavy tenant ended.
#[derive(Debug)]
struct Story {
    steps_ms: Vec<f64>,
    heavy_ended: usize,
}

impl Story {
    fn mean_ms(&self) -> f64 {
        self.steps_ms.iter().sum::<f64>() / self.steps_ms.len() as f64
    }

    fn longest_ms(&self) -> f64 {
        self.steps_ms.iter().copied().fold(0.0, f64::max)
    }
}

/// So many other tenants ask for short answers in turn; a heavy one keeps up `num_heavy` requests of
/// `heavy_tokens` tokens of prompt.
fn play(max_slowdown: f64, num_others: usize, num_heavy: usize, heavy_tokens: usize) -> Story {
    let mut world = World::new(config(max_slowdown));
    let mut story = Story {
        steps_ms: Vec::new(),
        heavy_ended: 0,
    };
    for number in 0..STEPS {
        if number % ASK_EVERY == 0 {
            world.ask(&format!("other-{}", number / ASK_EVERY % num_others), 6, 8);
        }
        world.keep("heavy", num_heavy, heavy_tokens, 4);
        let ended = world.step();
        story.heavy_ended += ended.iter().filter(|one| *one == "heavy").count();
        let mut tenants = world.last.tenants.iter();
        if number >= WARM && tenants.any(|one| one != "heavy") {
            story.steps_ms.push(world.last.elapsed_ms);
        }
    }
    story
}

#[test]
fn one_who_is_ahead_lengthens_the_steps_of_others_by_a_part_and_is_served() {
    let calm = play(1.2, 4, 0, 0);
    let paced = play(1.2, 4, 4, 400);
    let unpaced = play(100.0, 4, 4, 400);
    // A fifth more by its prompts; its own answers ride along at a millisecond a row.
    assert!(
        paced.mean_ms() < 1.3 * calm.mean_ms(),
        "{} {}",
        paced.mean_ms(),
        calm.mean_ms()
    );
    assert!(unpaced.mean_ms() > 1.6 * calm.mean_ms(), "{unpaced:?}");
    assert!(paced.longest_ms() < 2.5 * calm.longest_ms(), "{paced:?}");
    assert!(paced.heavy_ended >= 10, "{}", paced.heavy_ended);
}

#[test]
fn one_who_is_ahead_of_many_lengthens_their_steps_by_its_equal_share() {
    let calm = play(1.2, 40, 0, 0);
    let paced = play(1.2, 40, 4, 400);
    assert!(
        paced.mean_ms() < 1.1 * calm.mean_ms(),
        "{} {}",
        paced.mean_ms(),
        calm.mean_ms()
    );
    assert!(paced.heavy_ended >= 10, "{}", paced.heavy_ended);
}

#[test]
fn a_tenant_whose_requests_are_like_those_of_others_is_not_paced() {
    // As many requests at once as fill the machine, but none is large.
    let [paced, unpaced] = [1.2, 100.0].map(|max_slowdown| play(max_slowdown, 20, 12, 6));
    assert_eq!(paced.heavy_ended, unpaced.heavy_ended);
    assert_eq!(paced.steps_ms, unpaced.steps_ms);
}

#[test]
fn one_who_is_alone_gets_whole_steps_however_much_it_received() {
    let mut world = World::new(config(1.2));
    for _ in 0..40 {
        world.ask("heavy", 500, 1);
        let mut rows = Vec::new();
        while !world.held.is_empty() {
            world.step();
            rows.push(world.last.num_rows);
        }
        assert_eq!(rows, [64, 64, 64, 64, 64, 64, 64, 52]);
    }
}

#[test]
fn a_lead_is_what_one_received_beyond_its_share_and_passes_with_time() {
    let mut pacing = Pacing::new(&config(1.2));
    let tenants: Vec<Arc<str>> = (0..10).map(|number| format!("{number}").into()).collect();
    pacing.begin_step(0.0);
    for tenant in &tenants {
        pacing.receive(tenant, 10.0);
    }
    assert!(tenants.iter().all(|one| !pacing.is_ahead(one)));
    pacing.receive(&tenants[0], 200.0);
    let lead_ms = pacing.lead_ms(&tenants[0]);
    assert!(pacing.is_ahead(&tenants[0]) && (150.0..200.0).contains(&lead_ms));
    assert!(!pacing.is_ahead(&tenants[1]) && !pacing.is_ahead("never seen"));
    pacing.begin_step(20.0);
    assert!(
        !pacing.is_ahead(&tenants[0]),
        "{}",
        pacing.lead_ms(&tenants[0])
    );
}

#[test]
fn tenants_without_a_lead_are_forgotten() {
    let mut pacing = Pacing::new(&config(1.2));
    for number in 0..100_000 {
        pacing.begin_step(f64::from(number));
        pacing.receive(&format!("{number}").into(), 5.0);
    }
    assert!(pacing.num_remembered() < 400, "{}", pacing.num_remembered());
}
