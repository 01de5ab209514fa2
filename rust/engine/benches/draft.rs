//! Microseconds that drafting for a step takes, the lowest tenth and the median of many steps, by threads, for
//! requests of 2,048 tokens beside a namespace's text of two million. Arguments: numbers of requests.
#![allow(clippy::print_stdout, reason = "printing is what this program is for")]
#![allow(clippy::unwrap_used, reason = "a benchmark may stop")]

use spectrie_engine::{CostShape, Engine, EngineConfig, Plan, Request, StepResults, Verdicts};
use spectrie_types::SpeculationMode;
use spectrie_types::seed::splitmix;

const VOCABULARY: usize = 50_000;
const REQUESTS: [u64; 3] = [1, 8, 64];
const THREADS: [usize; 2] = [1, 2];
const CONTEXT: u64 = 2_048;
const TEXT_TOKENS: u64 = 2_000_000;
const STEPS: usize = 150;
const TURNS: usize = 3;

/// The token after two others: one of three, so that texts repeat themselves and branch.
fn next(before: u32, last: u32, chance: u64) -> u32 {
    let branch = [0, 0, 1, 2][(splitmix(chance) % 4) as usize];
    let context = u64::from(before % 7) << 32 | u64::from(last);
    (splitmix(3 * context + branch) % (VOCABULARY as u64 / 10)) as u32 + 1
}

fn text(seed: u64, length: u64) -> Vec<u32> {
    let mut tokens = vec![1, (splitmix(seed) % 1000) as u32 + 1];
    for index in 2..length as usize {
        let chance = splitmix(seed) ^ index as u64;
        tokens.push(next(tokens[index - 2], tokens[index - 1], chance));
    }
    tokens
}

fn engine(requests: u64, threads: usize, lesson: &[u32]) -> Engine {
    let engine = Engine::new(EngineConfig {
        eos_token_ids: vec![0],
        page_size: 16,
        chunk_tokens: 16_384,
        max_batch_rows: 1024,
        max_step_ms: 1e6,
        speculation: SpeculationMode::Auto,
        // Asks in every step, so that each does the same.
        drafting_cost_ms: Some(0.001),
        holdout_every: 0,
        draft_threads: threads,
        ..EngineConfig::new(VOCABULARY, 20_000, 4_096, requests as usize)
    });
    let engine = engine.unwrap();
    let costs = engine.set_costs(&[1, 1024], &[10.0, 30.0], CostShape::default());
    costs.unwrap();
    engine.learn("default", lesson).unwrap();
    for handle in 0..requests {
        let mut request = Request::new(handle, text(100 + handle, CONTEXT), 1000);
        request.sampling.temperature = 0.0;
        request.ignore_eos = true;
        request.learn = false;
        engine.submit(request).unwrap();
    }
    engine
}

/// Commits the text that goes on as the lesson does; `last` are the last two tokens of each request.
fn commit(engine: &Engine, plan: &Plan, last: &mut [[u32; 2]]) {
    let mut contexts: Vec<[u32; 2]> = Vec::with_capacity(plan.num_rows());
    for row in 0..plan.num_rows() {
        let owner = plan.row_owner[row] as usize;
        let first = plan.request_row_start[owner] as usize;
        let token = plan.row_token[row] as u32;
        let before = usize::try_from(plan.row_parent[row]).map(|parent| contexts[first + parent]);
        let handle = plan.request_handle[owner] as usize;
        contexts.push(before.map_or(last[handle], |[_, before]| [before, token]));
    }
    let token = |row: i32| {
        let [before, token] = contexts[row as usize];
        let owner = plan.row_owner[row as usize] as u64;
        let position = plan.row_position[row as usize] as u64;
        next(before, token, splitmix(position + (owner << 32))) as i32
    };
    let drawn: Vec<i32> = plan.sample_rows.iter().map(|&row| token(row)).collect();
    let results = StepResults::from(Verdicts::drawn(&drawn));
    let outputs = engine.commit(plan.plan_id, &results, 10.0, 0.0).unwrap();
    for output in outputs {
        for token in output.token_ids {
            let [_, before] = last[output.handle as usize];
            last[output.handle as usize] = [before, token];
        }
    }
}

/// Lowest tenth and median of the microseconds of drafting, and draft nodes of a step.
fn measure(requests: u64, threads: usize, lesson: &[u32]) -> (f64, f64, usize) {
    let engine = engine(requests, threads, lesson);
    let prompt_end = |handle| text(100 + handle, CONTEXT)[CONTEXT as usize - 2..].try_into();
    let mut last: Vec<[u32; 2]> = (0..requests)
        .map(|handle| prompt_end(handle).unwrap())
        .collect();
    let mut times = Vec::new();
    let mut nodes = 0;
    while times.len() < STEPS {
        let before = engine.load().draft_seconds;
        let plan = engine.plan(0.0).unwrap().unwrap();
        if plan.request_kind.iter().all(|&kind| kind == 1)
            && plan.num_requests() == requests as usize
        {
            times.push((engine.load().draft_seconds - before) * 1e6);
            nodes += plan.num_rows() - plan.num_requests();
        }
        commit(&engine, &plan, &mut last);
    }
    times.sort_by(f64::total_cmp);
    (times[STEPS / 10], times[STEPS / 2], nodes / STEPS)
}

fn main() {
    let lesson = text(7, TEXT_TOKENS);
    let wanted: Vec<u64> = std::env::args()
        .filter_map(|one| one.parse().ok())
        .collect();
    let is_wanted = |requests: &u64| wanted.is_empty() || wanted.contains(requests);
    for requests in REQUESTS.into_iter().filter(is_wanted) {
        for turn in 0..TURNS {
            for threads in THREADS {
                let (lowest, median, nodes) = measure(requests, threads, &lesson);
                println!(
                    "{requests} requests, turn {turn}, {threads} threads: {lowest:.0}, {median:.0} us a step, {nodes} nodes"
                );
            }
        }
    }
}
