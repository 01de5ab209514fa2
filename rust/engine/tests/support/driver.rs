//! An engine and its model, stepped by hand.

use std::collections::HashMap;
use std::sync::Arc;

use spectrie_engine::{
    CostShape, Engine, EngineConfig, Finish, Plan, Request, RequestOutput, StepResults, TopTokens,
    Verdicts,
};
use spectrie_sampling::TokenLogprobs;

use super::model::{FakeModel, PAGE_SIZE, VOCABULARY, all_rows, wanted_logits, wanted_rows};
use super::packed::Packed;
use super::playing::StillClock;

/// A small engine: 64 pages of 4 slots, 100 tokens of context, 8 requests at once. What it drafts
/// does not depend on how long drafting takes.
pub(crate) fn config() -> EngineConfig {
    EngineConfig {
        eos_token_ids: vec![0],
        page_size: PAGE_SIZE,
        memory_bytes: 4 << 20,
        holdout_every: 0,
        drafting_cost_ms: Some(0.05),
        ..EngineConfig::new(VOCABULARY, 64, 100, 8)
    }
}

/// The same with a long context and room for it.
pub(crate) fn long_config() -> EngineConfig {
    EngineConfig {
        max_context: 4000,
        num_pages: 1200,
        ..config()
    }
}

/// A greedy request that goes on after 0, so that its length is known.
pub(crate) fn request(handle: u64, prompt_ids: &[u32], max_tokens: u32) -> Request {
    let mut request = Request::new(handle, prompt_ids.to_vec(), max_tokens);
    request.sampling.temperature = 0.0;
    request.ignore_eos = true;
    request
}

pub(crate) struct Driver {
    pub(crate) engine: Engine,
    pub(crate) model: FakeModel,
    /// Whether tokens are drawn from packed steps where they can be.
    pub(crate) packs: bool,
    pub(crate) now_s: f64,
    /// Everything given so far.
    pub(crate) tokens: HashMap<u64, Vec<u32>>,
    pub(crate) sources: HashMap<u64, Vec<u8>>,
    pub(crate) logprobs: HashMap<u64, Vec<TokenLogprobs>>,
    pub(crate) prompt_logprobs: HashMap<u64, Vec<Option<TokenLogprobs>>>,
    pub(crate) finishes: HashMap<u64, Finish>,
}

impl Driver {
    pub(crate) fn new(config: EngineConfig) -> Self {
        Self {
            model: FakeModel::new(config.num_pages),
            packs: false,
            engine: Engine::new(config).unwrap(),
            now_s: 0.0,
            tokens: HashMap::new(),
            sources: HashMap::new(),
            logprobs: HashMap::new(),
            prompt_logprobs: HashMap::new(),
            finishes: HashMap::new(),
        }
    }

    /// On a clock that stands still, as a hiccup of the machine's would keep tries away; forwards take these milliseconds
    /// with one row and with 64.
    pub(crate) fn still(config: EngineConfig, forward_ms: [f64; 2]) -> Self {
        let driver = Self {
            engine: Engine::with_clock(config.clone(), Arc::new(StillClock)).unwrap(),
            ..Self::new(config)
        };
        let costs = (driver.engine).set_costs(&[1, 64], &forward_ms, CostShape::default());
        costs.unwrap();
        driver
    }

    pub(crate) fn submit(&self, request: Request) {
        self.engine.submit(request).unwrap();
    }

    pub(crate) fn plan(&mut self) -> Option<Plan> {
        let plan = self.engine.plan(self.now_s).unwrap();
        let ends = self.engine.take_outputs().unwrap();
        self.take(ends);
        plan
    }

    pub(crate) fn forward(&mut self, plan: &Plan) -> Vec<f32> {
        self.model.forward(plan)
    }

    pub(crate) fn commit(&mut self, plan: &Plan) {
        let values = self.forward(plan);
        self.commit_values(plan, &values);
    }

    pub(crate) fn commit_values(&mut self, plan: &Plan, values: &[f32]) {
        let (ids, probabilities) = self.model.top(plan);
        let packs = self.packs && plan.is_drawable();
        let drawn = packs.then(|| Packed::new(&self.engine, plan).drawn(values));
        let wanted = wanted_logits(plan, values);
        let logits = all_rows(plan, values);
        let results = StepResults {
            verdicts: drawn.as_deref().map_or(logits, |tokens| Verdicts::Drawn {
                tokens,
                logits: wanted_rows(&wanted),
            }),
            top: Some(TopTokens {
                ids: &ids,
                probabilities: &probabilities,
            }),
            compacted: false,
        };
        let outputs = self
            .engine
            .commit(plan.plan_id, &results, 1.0, self.now_s)
            .unwrap();
        self.take(outputs);
    }

    /// One step; its plan, unless the engine was idle.
    pub(crate) fn step(&mut self) -> Option<Plan> {
        let plan = self.plan()?;
        self.commit(&plan);
        Some(plan)
    }

    /// Steps until idle; the plans.
    pub(crate) fn run(&mut self) -> Vec<Plan> {
        std::iter::from_fn(|| self.step()).collect()
    }

    fn take(&mut self, outputs: Vec<RequestOutput>) {
        for output in outputs {
            self.tokens
                .entry(output.handle)
                .or_default()
                .extend(output.token_ids);
            self.sources
                .entry(output.handle)
                .or_default()
                .extend(output.sources);
            self.logprobs
                .entry(output.handle)
                .or_default()
                .extend(output.logprobs.unwrap_or_default());
            if let Some(prompt) = output.prompt_logprobs {
                self.prompt_logprobs.insert(output.handle, prompt);
            }
            if let Some(finish) = output.finish {
                self.finishes.insert(output.handle, finish);
            }
        }
    }
}

/// Draft nodes of a plan.
pub(crate) fn num_drafts(plan: &Plan) -> i32 {
    let rows = plan.request_kind.iter().zip(&plan.request_row_count);
    rows.filter(|&(&kind, _)| kind == 1)
        .map(|(_, count)| count - 1)
        .sum()
}
