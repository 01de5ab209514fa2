//! Requests admitted behind one that does not fit: it is admitted in the same step without them.

use std::sync::Arc;

use spectrie_types::SpeculationMode;
use spectrie_types::seed::splitmix;

use crate::clock::SystemClock;
use crate::config::EngineConfig;
use crate::costs::{CostCurve, CostShape};
use crate::forward::{StepResults, Verdicts};
use crate::request::Request;
use crate::scheduling::Scheduler;
use crate::scheduling::running::{guests, residents};

const PAGE_SIZE: usize = 4;
const MAX_CONTEXT: usize = 120;
const STEPS: usize = 2_000;

/// The request that others are admitted behind.
const LARGE: u64 = 0;

/// Numbers that look random, the same for each seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(1);
        (splitmix(self.0) >> 16) as usize % end
    }
}

/// Requests by the step in which they come, and the step in which the large one does.
struct Script {
    config: EngineConfig,
    arrivals: Vec<(usize, Request)>,
    large_comes: usize,
}

fn request(handle: u64, tenant: &str, prompt: Vec<u32>, max_tokens: usize) -> Request {
    let mut request = Request::new(handle, prompt, max_tokens as u32);
    request.tenant = Some(tenant.into());
    request.sampling.temperature = 0.0;
    request
}

fn script(seed: u64) -> Script {
    let mut dice = Dice(splitmix(seed));
    let max_running = 2 + dice.below(6);
    let config = EngineConfig {
        eos_token_ids: vec![0],
        page_size: PAGE_SIZE,
        chunk_tokens: 1 + dice.below(40),
        max_batch_rows: max_running + dice.below(60),
        max_step_ms: [200.0, 20.0][dice.below(2)],
        lookahead_tokens: [0, 4, 30][dice.below(3)],
        speculation: SpeculationMode::Off,
        memory_bytes: 0,
        ..EngineConfig::new(50, 18 + dice.below(40), MAX_CONTEXT, max_running)
    };
    let slots = (config.num_pages * PAGE_SIZE).min(MAX_CONTEXT - 12);
    let large_comes = 5 + dice.below(30);
    let beginning = |length: usize, text: usize| {
        (0..length).map(move |index| (5 * index + text) as u32 % 40 + 1)
    };
    let num_tokens = slots / 2 + dice.below(slots / 2 - 12);
    let mut large = request(LARGE, "large", beginning(num_tokens, 0).collect(), 8);
    large.ignore_eos = true;
    large.learn = false;
    let mut arrivals = vec![(large_comes, large)];
    for handle in 1..60 {
        let came = dice.below(90);
        // Those that come first may be of any size, and hold what the large one needs.
        let (longest, most) = if came < large_comes {
            (40, 30)
        } else {
            (8, 12)
        };
        let length = dice.below(longest);
        // No text begins like another, and none is kept: what is cached changes what rows are needed.
        let prompt = [vec![handle as u32 % 49 + 1], beginning(length, 1).collect()].concat();
        let tenant = ["a", "b", "c", "d"][dice.below(4)];
        let mut one = request(handle, tenant, prompt, 1 + dice.below(most));
        one.learn = false;
        one.priority = [0, 0, 7][dice.below(3)];
        arrivals.push((came, one));
    }
    arrivals.sort_by_key(|(came, one)| (*came, one.handle));
    Script {
        config,
        arrivals,
        large_comes,
    }
}

/// What happened until the large request was admitted.
#[derive(Debug, Default)]
struct Story {
    admitted_at: usize,
    /// Guests at the end of each step, summed.
    guest_steps: usize,
    /// Others that had their turn by then.
    num_ended: usize,
    preemptions: u64,
}

/// A token that depends on nothing but the request and how many it has.
fn token(handle: u64, num_output: usize) -> i32 {
    (splitmix(handle * 1_000 + num_output as u64) % 25) as i32
}

fn step(scheduler: &mut Scheduler, now_s: f64) -> usize {
    let Some(plan) = scheduler.plan(now_s).unwrap() else {
        return 0;
    };
    let open = scheduler.flight.open_plan().unwrap();
    let firsts = open.parts.iter().map(|part| part.first_sample);
    let ends = firsts.skip(1).chain([open.num_samples]);
    let mut tokens = Vec::new();
    for (part, end) in open.parts.iter().zip(ends) {
        let one = &scheduler.running[&part.key];
        if end > part.first_sample {
            tokens.push(token(one.request.handle, one.num_output()));
        }
    }
    let results = StepResults::from(Verdicts::Tokens(&tokens));
    let elapsed_ms = 9.0 + plan.num_rows() as f64;
    let outputs = scheduler
        .commit(plan.plan_id, &results, elapsed_ms, now_s)
        .unwrap();
    outputs.iter().filter(|one| one.finish.is_some()).count()
}

fn play(seed: u64, backfills: bool) -> Story {
    let Script {
        config,
        arrivals,
        large_comes,
    } = script(seed);
    let mut scheduler = Scheduler::new(config, None, Arc::new(SystemClock::default())).unwrap();
    let costs = CostCurve::new(&[1, 101], &[10.0, 110.0], CostShape::default());
    scheduler.set_costs(costs.unwrap());
    let mut arrivals = arrivals.into_iter().peekable();
    let mut story = Story::default();
    for now in 0..STEPS {
        let now_s = now as f64 * 0.01;
        while let Some((_, one)) = arrivals.next_if(|(came, _)| *came == now) {
            scheduler.submit(one, now_s, now_s);
        }
        if now == large_comes {
            scheduler.admission.backfills = backfills;
        }
        story.num_ended += step(&mut scheduler, now_s);
        scheduler.take_outputs();
        let waiting = scheduler.admission.waiting();
        let waiting = waiting.map(|(key, one)| one.resident(key));
        scheduler
            .cache
            .check(residents(&scheduler.running, |_| true), waiting);
        let mut runs = scheduler.running.values();
        if runs.any(|one| one.request.handle == LARGE) {
            story.admitted_at = now;
            story.preemptions = scheduler.load().preemptions;
            return story;
        }
        if now >= large_comes {
            story.guest_steps += guests(&scheduler.running).count();
        }
    }
    panic!("the large request is never admitted: seed {seed}");
}

#[test]
fn no_guest_delays_the_request_that_it_passes() {
    let (mut num_helped, mut num_sent_back) = (0, 0);
    for seed in 0..4_000 {
        let [with, without] = [true, false].map(|backfills| play(seed, backfills));
        assert!(
            with.admitted_at <= without.admitted_at,
            "seed {seed}: {with:?} {without:?}"
        );
        num_helped += usize::from(with.num_ended > without.num_ended);
        num_sent_back += usize::from(with.preemptions > without.preemptions);
    }
    assert!(
        num_helped > 300 && num_sent_back > 50,
        "{num_helped} {num_sent_back}"
    );
}
