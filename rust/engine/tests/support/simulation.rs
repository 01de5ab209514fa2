//! An engine on a simulated clock: the time of a forward is a function of its rows, that of a draft
//! one of what it looked at, and looking for likeliest tokens costs too.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::text_head::TextHead;
use spectrie_engine::{
    Clock, CostShape, Engine, EngineConfig, Load, Plan, Request, StepResults, TopTokens, Verdicts,
};
use spectrie_trie::Visits;
use spectrie_types::SpeculationMode;
use spectrie_types::sizes::TOP_K;

const VOCABULARY: usize = 2000;

/// Rows and milliseconds of forwards.
type Curve = (&'static [usize], &'static [f64]);

/// What computes the forwards.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Device {
    /// A processor whose forwards take what their rows do.
    Rows(Curve),
    /// See [`gpu_ms`].
    Gpu {
        /// Whether the engine is told of stairs and tiles, or of a price for each row's keys alone.
        is_known: bool,
    },
}

/// Sizes of the graphs that a device has captured.
const GRAPH_ROWS: [usize; 15] = [1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512];

/// Rows of a request that read its keys together: 64 of them with four query heads each.
const TILE_ROWS: usize = 16;

/// A forward of some requests, by rows and cached tokens of each, of eight billion weights on a device:
/// weights are read once, padding rows take as long as others, and a tile reads its request's keys once.
fn gpu_ms(requests: &[(usize, usize)]) -> f64 {
    let rows: usize = requests.iter().map(|one| one.0).sum();
    let graph = GRAPH_ROWS.into_iter().find(|&size| size >= rows);
    let computed = graph.unwrap_or(rows) as f64;
    let read = |&(rows, kv_len): &(usize, usize)| (rows.div_ceil(TILE_ROWS) * kv_len) as f64;
    let keys: f64 = requests.iter().map(read).sum();
    4.2 + 0.004 * computed + 0.03 * (computed - 160.0).max(0.0) + 3.0e-5 * keys
}

impl Device {
    fn milliseconds(self, plan: &Plan) -> f64 {
        match self {
            Self::Rows(curve) => milliseconds(curve, plan.num_rows()),
            Self::Gpu { .. } => {
                let counts = plan.request_row_count.iter().zip(&plan.request_kv_len);
                let requests: Vec<(usize, usize)> = counts
                    .map(|(&rows, &kv_len)| (rows as usize, kv_len as usize))
                    .collect();
                gpu_ms(&requests)
            }
        }
    }

    /// Tells the engine what was measured before it serves.
    fn measure(self, engine: &Engine) {
        let told = match self {
            Self::Rows(curve) => engine.set_costs(curve.0, curve.1, CostShape::default()),
            Self::Gpu { is_known } => {
                let tree = |rows: usize| {
                    let trees: Vec<(usize, usize)> = (0..rows)
                        .step_by(64)
                        .map(|first| ((rows - first).min(64), 256))
                        .collect();
                    gpu_ms(&trees)
                };
                let times = GRAPH_ROWS.map(tree);
                let added = |requests: &[(usize, usize)]| {
                    let longer: Vec<(usize, usize)> = requests
                        .iter()
                        .map(|&(rows, len)| (rows, len + 1024))
                        .collect();
                    (gpu_ms(&longer) - gpu_ms(requests)) / 1024.0
                };
                let shape = if is_known {
                    CostShape {
                        measured_tokens: 256,
                        ms_per_key: 0.0,
                        ms_per_read: added(&[(1, 256); 8]) / 8.0,
                        tile_rows: TILE_ROWS,
                        stair_rows: 512,
                    }
                } else {
                    CostShape {
                        measured_tokens: 256,
                        ms_per_key: added(&[(1, 256); 8]) / 8.0,
                        ..CostShape::default()
                    }
                };
                engine.set_costs(&GRAPH_ROWS, &times, shape)
            }
        };
        told.unwrap();
    }
}

/// Forwards as a small model on two cores has them.
pub(crate) const STEEP: Curve = (
    &[1, 2, 4, 8, 16, 32, 64, 512],
    &[15.0, 16.5, 19.0, 24.0, 33.0, 52.0, 90.0, 720.0],
);

/// Forwards as on a device: more rows are nearly free.
pub(crate) const FLAT: Curve = (&[1, 16, 64, 512], &[10.0, 10.5, 11.0, 20.0]);

/// What a draft takes: so much, and more for each position that it looks at in shared text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DraftCost {
    pub(crate) ms: f64,
    pub(crate) ms_per_position: f64,
}

impl DraftCost {
    /// A draft from a memory in which it costs `ms` whatever it looks at.
    pub(crate) fn of(ms: f64) -> Self {
        Self {
            ms,
            ms_per_position: 0.0,
        }
    }

    /// As measured on one core: 8 microseconds with a request's own text, 33 with all the positions
    /// that are looked at in a memory of millions of tokens.
    pub(crate) fn measured() -> Self {
        Self {
            ms: 0.008,
            ms_per_position: 0.0002,
        }
    }
}

/// The time of a run. Only forwards and drafts take any.
#[derive(Debug)]
struct SimulatedClock(Mutex<(f64, DraftCost)>);

impl SimulatedClock {
    fn now_ms(&self) -> f64 {
        self.0.lock().unwrap().0
    }

    fn advance_ms(&self, milliseconds: f64) {
        self.0.lock().unwrap().0 += milliseconds;
    }

    fn set_cost(&self, cost: DraftCost) {
        self.0.lock().unwrap().1 = cost;
    }
}

impl Clock for SimulatedClock {
    fn now_s(&self) -> f64 {
        self.now_ms() / 1e3
    }

    fn drafted(&self, visits: Visits) {
        let cost = self.0.lock().unwrap().1;
        self.advance_ms(cost.ms + cost.ms_per_position * f64::from(visits.positions));
    }
}

fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn noise(seed: u64) -> u32 {
    (mix(seed) % VOCABULARY as u64) as u32
}

/// A text whose token at a position is `noise` or repeats what stood 40 tokens before.
pub(crate) fn text(seed: u64, len: usize, repeats: impl Fn(usize) -> bool) -> Vec<u32> {
    let mut tokens: Vec<u32> = Vec::with_capacity(len);
    for at in 0..len {
        let token = if at >= 40 && repeats(at) {
            tokens[at - 40]
        } else {
            noise(seed << 32 | at as u64)
        };
        tokens.push(token);
    }
    tokens
}

fn milliseconds((counts, times): Curve, rows: usize) -> f64 {
    let last = counts.len() - 1;
    let right = counts.iter().position(|&count| count >= rows);
    let right = right.unwrap_or(last);
    if right == 0 {
        return times[0];
    }
    let share = (rows - counts[right - 1]) as f64 / (counts[right] - counts[right - 1]) as f64;
    times[right - 1] + share * (times[right] - times[right - 1])
}

/// What a run took and gave.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) milliseconds: f64,
    pub(crate) tokens: u64,
    pub(crate) top_rows: usize,
    /// Numbers of the steps in which a request was asked for drafts.
    pub(crate) asked: Vec<usize>,
    /// Tokens emitted before each step, and levels that a drafter was asked in it.
    pub(crate) levels: Vec<(u64, usize)>,
    pub(crate) load: Load,
}

impl Outcome {
    pub(crate) fn rate(&self) -> f64 {
        self.tokens as f64 / self.milliseconds
    }
}

/// How a run drafts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Policy {
    pub(crate) mode: SpeculationMode,
    pub(crate) max_draft_tokens: usize,
    pub(crate) holdout_every: u64,
    pub(crate) drafting_cost_ms: Option<f64>,
    pub(crate) device: Device,
    /// What a draft costs in each step.
    pub(crate) draft_cost: fn(usize) -> DraftCost,
    /// What looking for the likeliest tokens after one row takes.
    pub(crate) top_ms: f64,
    /// The drafter that the runner calls.
    pub(crate) head: Option<TextHead>,
}

impl Policy {
    pub(crate) fn of(mode: SpeculationMode) -> Self {
        Self {
            mode,
            max_draft_tokens: 16,
            holdout_every: 100,
            drafting_cost_ms: None,
            device: Device::Rows(STEEP),
            draft_cost: |_| DraftCost::measured(),
            top_ms: 0.02,
            head: None,
        }
    }
}

/// Decodes the last `num_output` tokens of each text. Prompts are not counted.
pub(crate) fn run(texts: &[Vec<u32>], num_output: usize, policy: Policy) -> Outcome {
    let config = EngineConfig {
        speculation: policy.mode,
        max_draft_tokens: policy.max_draft_tokens,
        holdout_every: policy.holdout_every,
        drafting_cost_ms: policy.drafting_cost_ms,
        memory_bytes: 16 << 20,
        ..EngineConfig::new(VOCABULARY, 32_768, 32_768, 64)
    };
    let clock = Arc::new(SimulatedClock(Mutex::new((0.0, (policy.draft_cost)(0)))));
    let engine = Engine::with_clock(config, Arc::clone(&clock) as Arc<dyn Clock>).unwrap();
    policy.device.measure(&engine);
    let drafter = policy.head.map(TextHead::info);
    if let Some(drafter) = drafter {
        engine.add_drafter(drafter).unwrap();
    }
    for (handle, text) in (0..).zip(texts) {
        let prompt = text[..text.len() - num_output].to_vec();
        let mut request = Request::new(handle, prompt, num_output as u32);
        request.sampling.temperature = 0.0;
        request.ignore_eos = true;
        engine.submit(request).unwrap();
    }
    let mut owners: HashMap<i32, usize> = HashMap::new();
    let (mut counted_ms, mut top_rows, mut tokens) = (0.0, 0, 0);
    let (mut asked, mut calls) = (Vec::new(), 0);
    let mut levels = Vec::new();
    for step in 0.. {
        let began_ms = clock.now_ms();
        clock.set_cost((policy.draft_cost)(step));
        let mut num_levels = 0;
        while let Some(head) = policy.head
            && let Some(level) = engine.draft_plan(clock.now_ms() / 1e3).unwrap()
        {
            num_levels += 1;
            let level_ms = head.milliseconds(&level);
            clock.advance_ms(level_ms);
            let text_of = |page: i32| texts[owners[&page]].as_slice();
            let answers = head.answer(&level, text_of, VOCABULARY);
            engine.draft_results(&answers.view(), level_ms).unwrap();
        }
        levels.push((tokens, num_levels));
        let Some(plan) = engine.plan(began_ms / 1e3).unwrap() else {
            break;
        };
        let owner_of: Vec<usize> = (0..plan.num_requests())
            .map(|request| {
                let page = plan.page_ids[plan.page_indptr[request] as usize];
                if plan.request_kv_len[request] == 0 {
                    let first = plan.row_token[plan.request_row_start[request] as usize] as u32;
                    let owner = texts.iter().position(|text| text[0] == first).unwrap();
                    owners.insert(page, owner);
                }
                owners[&page]
            })
            .collect();
        let next = |row: usize| {
            let text = &texts[owner_of[plan.row_owner[row] as usize]];
            let at = plan.row_position[row] as usize + 1;
            *text.get(at).unwrap_or(&0) as i32
        };
        let verdicts: Vec<i32> = plan
            .sample_rows
            .iter()
            .map(|&row| next(row as usize))
            .collect();
        // A hot model: nothing it says is likely.
        let (mut ids, mut probabilities) = (Vec::new(), Vec::new());
        for &row in &plan.top_rows {
            let seed = u64::from(plan.row_token[row as usize] as u32) << 20;
            ids.extend((0..TOP_K as u64).map(|index| noise(seed + index) as i32));
            probabilities.extend([0.02_f32; TOP_K]);
        }
        if engine.load().draft_calls > calls {
            calls = engine.load().draft_calls;
            asked.push(step);
        }
        let of_tops = policy.top_ms * plan.top_rows.len() as f64;
        let forward_ms = policy.device.milliseconds(&plan) + of_tops;
        clock.advance_ms(forward_ms);
        let results = StepResults {
            verdicts: Verdicts::Tokens(&verdicts),
            top: Some(TopTokens {
                ids: &ids,
                probabilities: &probabilities,
            }),
            compacted: false,
        };
        let outputs = engine
            .commit(plan.plan_id, &results, forward_ms, clock.now_s())
            .unwrap();
        if plan.request_kind.iter().all(|&kind| kind == 1) {
            counted_ms += clock.now_ms() - began_ms;
            top_rows += plan.top_rows.len();
            tokens += outputs
                .iter()
                .map(|one| one.token_ids.len() as u64)
                .sum::<u64>();
        }
    }
    Outcome {
        milliseconds: counted_ms,
        tokens,
        top_rows,
        asked,
        levels,
        load: engine.load(),
    }
}

pub(crate) fn noisy(num_requests: usize, len: usize) -> Vec<Vec<u32>> {
    (1..=num_requests as u64)
        .map(|seed| text(seed, len, |_| false))
        .collect()
}

/// Noise, then 200 tokens that repeat, then noise, and so on.
pub(crate) fn phased(num_requests: usize, len: usize) -> Vec<Vec<u32>> {
    let phase = |at: usize| at / 200 % 2 == 1;
    (1..=num_requests as u64)
        .map(|seed| text(seed, len, phase))
        .collect()
}
