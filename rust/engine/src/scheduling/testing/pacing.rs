//! Tenants that take more than their share, beside others.

use std::collections::HashMap;
use std::sync::Arc;

use spectrie_types::SpeculationMode;

use crate::clock::SystemClock;
use crate::config::EngineConfig;
use crate::forward::{StepResults, Verdicts};
use crate::request::Request;
use crate::scheduling::Scheduler;
use crate::scheduling::composition::Pacing;
use crate::scheduling::open_plan::Work;
use crate::speculation::{ContextCost, CostCurve};

const STEPS: usize = 3_000;
/// Steps after which everybody is known.
const WARM: usize = 300;
const NUM_OTHERS: u64 = 20;
/// One of the others asks every so many steps.
const ASK_EVERY: usize = 10;

fn config(max_slowdown: f64) -> EngineConfig {
    EngineConfig {
        eos_token_ids: vec![0],
        page_size: 4,
        chunk_tokens: 64,
        max_step_ms: 80.0,
        max_slowdown,
        speculation: SpeculationMode::Off,
        memory_bytes: 0,
        ..EngineConfig::new(50, 2_000, 600, 32)
    }
}

fn request(handle: u64, tenant: &str, length: usize, max_tokens: u32) -> Request {
    let prompt = (0..length).map(|index| (handle as usize + index * 7) as u32 % 49 + 1);
    let mut request = Request::new(handle, prompt.collect(), max_tokens);
    request.tenant = Some(tenant.into());
    request.sampling.temperature = 0.0;
    request.ignore_eos = true;
    request.learn = false;
    request
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

/// Tenants ask for short answers in turn; a heavy one keeps up `num_heavy` requests of `heavy_tokens`
/// tokens of prompt.
fn play(max_slowdown: f64, num_heavy: usize, heavy_tokens: usize) -> Story {
    let clock = Arc::new(SystemClock::default());
    let mut scheduler = Scheduler::new(config(max_slowdown), None, clock).unwrap();
    let costs = CostCurve::new(&[1, 101], &[10.0, 110.0], ContextCost::default());
    scheduler.set_costs(costs.unwrap());
    let mut tenants: HashMap<u64, bool> = HashMap::new();
    let mut story = Story {
        steps_ms: Vec::new(),
        heavy_ended: 0,
    };
    let (mut now_s, mut handle) = (0.0, 0);
    for number in 0..STEPS {
        if number % ASK_EVERY == 0 {
            handle += 1;
            let tenant = format!("other-{}", handle % NUM_OTHERS);
            scheduler.submit(request(handle, &tenant, 6, 8), now_s, now_s);
            tenants.insert(handle, false);
        }
        while tenants.values().filter(|&&is_heavy| is_heavy).count() < num_heavy {
            handle += 1;
            scheduler.submit(request(handle, "heavy", heavy_tokens, 4), now_s, now_s);
            tenants.insert(handle, true);
        }
        let Some(plan) = scheduler.plan(now_s).unwrap() else {
            now_s += 0.01;
            continue;
        };
        let open = scheduler.flight.open_plan().unwrap();
        let (mut serves_others, mut num_samples) = (false, 0);
        for part in &open.parts {
            let one = &scheduler.running[&part.key];
            serves_others |= !tenants[&one.request.handle];
            num_samples += match part.work {
                Work::Chunk(rows) => usize::from(one.num_missing() == rows),
                Work::Tree(_) => 1,
            };
        }
        let elapsed_ms = 9.0 + plan.num_rows() as f64;
        now_s += elapsed_ms / 1e3;
        if serves_others && number >= WARM {
            story.steps_ms.push(elapsed_ms);
        }
        let tokens = vec![1; num_samples];
        let results = StepResults::from(Verdicts::Tokens(&tokens));
        let outputs = scheduler.commit(plan.plan_id, &results, elapsed_ms, now_s);
        for output in outputs.unwrap() {
            if output.finish.is_some() && tenants.remove(&output.handle) == Some(true) {
                story.heavy_ended += 1;
            }
        }
    }
    story
}

#[test]
fn one_who_is_ahead_lengthens_the_steps_of_others_by_a_part_and_is_served() {
    let calm = play(1.2, 0, 0);
    let paced = play(1.2, 4, 400);
    let unpaced = play(100.0, 4, 400);
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
fn a_tenant_whose_requests_are_like_those_of_others_is_not_paced() {
    // As many requests at once as fill the machine, but none is large.
    let [paced, unpaced] = [1.2, 100.0].map(|max_slowdown| play(max_slowdown, 12, 6));
    assert_eq!(paced.heavy_ended, unpaced.heavy_ended);
    assert_eq!(paced.steps_ms, unpaced.steps_ms);
}

#[test]
fn one_who_is_alone_gets_whole_steps_however_much_it_received() {
    let mut scheduler =
        Scheduler::new(config(1.2), None, Arc::new(SystemClock::default())).unwrap();
    let costs = CostCurve::new(&[1, 101], &[10.0, 110.0], ContextCost::default());
    scheduler.set_costs(costs.unwrap());
    for handle in 0..40 {
        scheduler.submit(request(handle, "heavy", 500, 1), 0.0, 0.0);
        let mut rows = Vec::new();
        while let Some(plan) = scheduler.plan(0.0).unwrap() {
            rows.push(plan.num_rows());
            let tokens = vec![1; usize::from(rows.iter().sum::<usize>() == 500)];
            let results = StepResults::from(Verdicts::Tokens(&tokens));
            scheduler.commit(plan.plan_id, &results, 90.0, 0.0).unwrap();
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
