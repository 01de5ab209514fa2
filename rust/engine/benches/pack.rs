//! Microseconds that packing a step takes, median of many steps, for 64 requests of 4,096 tokens.
#![allow(clippy::print_stdout, reason = "printing is what this program is for")]
#![allow(clippy::unwrap_used, reason = "a benchmark may stop")]

use std::time::Instant;

use spectrie_engine::{
    CostShape, DeviceShape, Engine, EngineConfig, Plan, Request, StepResults, TileRows, Verdicts,
};
use spectrie_types::SpeculationMode;
use spectrie_types::options::SamplingParameters;
use spectrie_types::seed::splitmix;

const VOCABULARY: usize = 151_936;
const REQUESTS: u64 = 64;
const CONTEXT: u64 = 4_096;
const STEPS: usize = 200;

fn engine(speculation: SpeculationMode) -> Engine {
    let engine = Engine::new(EngineConfig {
        eos_token_ids: vec![0],
        page_size: 16,
        chunk_tokens: 16_384,
        max_batch_rows: 16_384,
        max_draft_tokens: 7,
        drafting_cost_ms: Some(0.0),
        holdout_every: 0,
        speculation,
        ..EngineConfig::new(VOCABULARY, 20_000, 5_000, REQUESTS as usize)
    });
    let engine = engine.unwrap();
    let costs = engine.set_costs(&[1, 16_384], &[1.0, 1.01], CostShape::default());
    costs.unwrap();
    engine
}

/// Tokens go in circles of 700, so that drafts are found.
fn next(token: i32) -> i32 {
    let (circle, place) = (token / 700, token % 700);
    circle * 700 + (place + 1) % 700
}

fn request(handle: u64, sampling: &SamplingParameters) -> Request {
    let first = (splitmix(handle) % 200) as i32 * 700;
    let prompt = std::iter::successors(Some(first), |&token| Some(next(token)));
    let prompt = prompt.take(CONTEXT as usize).map(|token| token as u32);
    let mut request = Request::new(handle, prompt.collect(), 800);
    request.sampling = sampling.clone();
    request.ignore_eos = true;
    request.learn = false;
    request
}

fn commit(engine: &Engine, plan: &Plan) {
    let rows = plan.sample_rows.iter();
    let drawn: Vec<i32> = rows
        .map(|&row| next(plan.row_token[row as usize]))
        .collect();
    let results = StepResults::from(Verdicts::drawn(&drawn));
    engine.commit(plan.plan_id, &results, 1.0, 0.0).unwrap();
}

fn measure(name: &str, speculation: SpeculationMode, sampling: &SamplingParameters) {
    let engine = engine(speculation);
    for handle in 0..REQUESTS {
        engine.submit(request(handle, sampling)).unwrap();
    }
    let shape = DeviceShape::new(4, 8, &[None], VOCABULARY).unwrap();
    let tiles = TileRows {
        part: 64,
        prompt: 32,
    };
    let mut words = vec![0; 1 << 22];
    let (mut times, mut num_words, mut num_rows) = (Vec::new(), 0, 0);
    while times.len() < STEPS {
        let plan = engine.plan(0.0).unwrap().unwrap();
        if plan.request_kind.len() == REQUESTS as usize
            && plan.request_kind.iter().all(|&kind| kind == 1)
        {
            let start = Instant::now();
            let packed = engine.pack(&plan, &shape, tiles, &mut words).unwrap();
            times.push(start.elapsed().as_nanos() as f64 / 1e3);
            (num_words, num_rows) = (packed.num_words, packed.num_rows);
        }
        commit(&engine, &plan);
        if engine.load().running == 0 {
            break;
        }
    }
    times.sort_by(f64::total_cmp);
    let median = times.get(times.len() / 2).copied().unwrap_or(f64::NAN);
    println!("{name:24} {num_rows:4} rows {num_words:7} words {median:8.1} us");
}

fn main() {
    let greedy = SamplingParameters {
        temperature: 0.0,
        ..SamplingParameters::default()
    };
    let sampled = SamplingParameters {
        top_p: 0.9,
        ..SamplingParameters::default()
    };
    let penalised = SamplingParameters {
        presence_penalty: 0.5,
        ..sampled.clone()
    };
    for (name, sampling) in [
        ("greedy", &greedy),
        ("top_p 0.9", &sampled),
        ("top_p, penalties", &penalised),
    ] {
        measure(name, SpeculationMode::Off, sampling);
        measure(&format!("{name}, drafts"), SpeculationMode::Auto, sampling);
    }
}
