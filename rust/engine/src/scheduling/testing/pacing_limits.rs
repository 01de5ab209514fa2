//! Large work goes on whatever others ask for, and whatever happened before.

use std::collections::HashMap;
use std::sync::Arc;

use spectrie_types::SpeculationMode;

use crate::clock::SystemClock;
use crate::config::EngineConfig;
use crate::forward::{StepResults, Verdicts};
use crate::request::Request;
use crate::scheduling::Scheduler;
use crate::scheduling::open_plan::Work;
use crate::speculation::{ContextCost, CostCurve};

fn config() -> EngineConfig {
    EngineConfig {
        eos_token_ids: vec![0],
        page_size: 4,
        chunk_tokens: 32,
        max_step_ms: 80.0,
        speculation: SpeculationMode::Off,
        memory_bytes: 0,
        ..EngineConfig::new(50, 4_000, 600, 40)
    }
}

struct World {
    scheduler: Scheduler,
    now_s: f64,
    handle: u64,
    held: HashMap<u64, String>,
    /// By which the next step with paced work is longer.
    hiccup_ms: f64,
    /// Whether the last step had paced work.
    was_paced: bool,
}

impl World {
    fn new(config: EngineConfig) -> Self {
        let mut scheduler = Scheduler::new(config, None, Arc::new(SystemClock::default())).unwrap();
        let costs = CostCurve::new(&[1, 101], &[10.0, 110.0], ContextCost::default());
        scheduler.set_costs(costs.unwrap());
        Self {
            scheduler,
            now_s: 0.0,
            handle: 0,
            held: HashMap::new(),
            hiccup_ms: 0.0,
            was_paced: false,
        }
    }

    fn ask(&mut self, tenant: &str, length: usize, max_tokens: u32) {
        self.handle += 1;
        let handle = self.handle;
        let prompt = (0..length).map(|index| (handle as usize * 31 + index * 7) as u32 % 49 + 1);
        let mut prompt: Vec<u32> = prompt.collect();
        // Nothing is found in the cache.
        for (index, token) in prompt.iter_mut().take(3).enumerate() {
            *token = (handle / 49_u64.pow(index as u32) % 49) as u32 + 1;
        }
        let mut request = Request::new(handle, prompt, max_tokens);
        request.tenant = Some(tenant.into());
        request.sampling.temperature = 0.0;
        request.ignore_eos = true;
        request.learn = false;
        self.scheduler.submit(request, self.now_s, self.now_s);
        self.held.insert(handle, tenant.to_owned());
    }

    /// Keeps up so many requests.
    fn keep(&mut self, tenant: &str, count: usize, length: usize, max_tokens: u32) {
        while self.held.values().filter(|one| **one == tenant).count() < count {
            self.ask(tenant, length, max_tokens);
        }
    }

    /// A step of a millisecond a row; whose requests ended with it.
    fn step(&mut self) -> Vec<String> {
        let Some(plan) = self.scheduler.plan(self.now_s).unwrap() else {
            assert!(
                self.held.is_empty(),
                "an empty plan while requests are held"
            );
            self.now_s += 0.01;
            return Vec::new();
        };
        let open = self.scheduler.flight.open_plan().unwrap();
        self.was_paced = !open.paced.is_empty();
        let mut num_samples = 0;
        for part in &open.parts {
            let one = &self.scheduler.running[&part.key];
            num_samples += match part.work {
                Work::Chunk(rows) => usize::from(one.num_missing() == rows),
                Work::Tree(_) => 1,
            };
        }
        let mut elapsed_ms = 9.0 + plan.num_rows() as f64;
        if self.was_paced {
            elapsed_ms += std::mem::take(&mut self.hiccup_ms);
        }
        self.now_s += if elapsed_ms.is_finite() {
            elapsed_ms / 1e3
        } else {
            0.1
        };
        let tokens = vec![1; num_samples];
        let results = StepResults::from(Verdicts::Tokens(&tokens));
        let outputs = self
            .scheduler
            .commit(plan.plan_id, &results, elapsed_ms, self.now_s);
        let ended = outputs
            .unwrap()
            .into_iter()
            .filter(|one| one.finish.is_some());
        ended
            .filter_map(|one| self.held.remove(&one.handle))
            .collect()
    }
}

/// Steps until a request of `tenant` ends while `feed` goes on.
fn steps_until(world: &mut World, tenant: &str, feed: impl Fn(&mut World)) -> Option<usize> {
    (0..2_000).find(|_| {
        feed(world);
        world.step().iter().any(|one| one == tenant)
    })
}

#[test]
fn a_longer_prompt_is_served_beside_short_ones_that_fill_every_step() {
    // Of equal tenants, and of one who is ahead.
    for num_tenants in [10, 1] {
        let mut world = World::new(config());
        let flood = |world: &mut World| {
            for number in 0..num_tenants {
                world.keep(&format!("flood-{number}"), 30 / num_tenants, 16, 2);
            }
            world.keep("other", 1, 16, 40);
        };
        for _ in 0..600 {
            flood(&mut world);
            world.step();
        }
        world.ask("late", 60, 2);
        let took = steps_until(&mut world, "late", flood);
        assert!(took.is_some_and(|took| took < 100), "{took:?}");
    }
}

#[test]
fn one_who_is_alone_by_now_is_not_held_back_by_what_was_usual() {
    let mut world = World::new(config());
    for step in 0..2_000 {
        if step % 20 == 0 {
            world.ask(&format!("other-{}", step / 20 % 3), 6, 4);
        }
        world.step();
    }
    let feed = |world: &mut World| {
        for number in world.held.len()..35 {
            let max_tokens = 30 + (world.handle as usize * 7 + number) % 40;
            world.ask("alone", 6, max_tokens as u32);
        }
    };
    let began_s = world.now_s;
    while world.now_s < began_s + 200.0 {
        feed(&mut world);
        world.step();
    }
    world.ask("alone", 300, 1);
    let handle = world.handle;
    let took = (0..2_000).find(|_| {
        feed(&mut world);
        world.step();
        !world.held.contains_key(&handle)
    });
    assert!(took.is_some_and(|took| took < 20), "{took:?}");
}

#[test]
fn a_step_that_hung_does_not_hold_large_work_back_for_ever() {
    for hiccup_ms in [600e3, f64::INFINITY] {
        let mut world = World::new(config());
        let feed = |world: &mut World, num_heavy| {
            for number in 0..5 {
                world.keep(&format!("other-{number}"), 1, 6, 20);
            }
            world.keep("heavy", num_heavy, 400, 1);
        };
        for step in 0..900 {
            feed(&mut world, if step < 300 { 0 } else { 4 });
            world.step();
        }
        world.hiccup_ms = hiccup_ms;
        while world.hiccup_ms > 0.0 {
            feed(&mut world, 4);
            world.step();
        }
        let took = (0..5_000).find(|_| {
            feed(&mut world, 4);
            world.step();
            world.was_paced
        });
        assert!(took.is_some_and(|took| took < 1_000), "{took:?}");
    }
}
