//! Tenants that ask a scheduler on a counted clock.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use spectrie_types::SpeculationMode;

use crate::clock::SystemClock;
use crate::config::EngineConfig;
use crate::costs::{CostCurve, CostShape};
use crate::forward::{StepResults, Verdicts};
use crate::request::Request;
use crate::scheduling::Scheduler;
use crate::scheduling::flight::Work;

/// One without drafts, of many pages.
pub(super) fn config(num_pages: usize, chunk_tokens: usize, max_running: usize) -> EngineConfig {
    EngineConfig {
        eos_token_ids: vec![0],
        page_size: 4,
        chunk_tokens,
        max_step_ms: 80.0,
        speculation: SpeculationMode::Off,
        memory_bytes: 0,
        ..EngineConfig::new(50, num_pages, 600, max_running)
    }
}

/// A scheduler whose steps take 9 milliseconds and one for each row, and the requests that it holds.
pub(super) struct World {
    scheduler: Scheduler,
    pub(super) now_s: f64,
    /// Of the last request.
    pub(super) handle: u64,
    /// The tenant of each request that has not ended.
    pub(super) held: HashMap<u64, String>,
    /// By which the next step with paced work is longer.
    pub(super) hiccup_ms: f64,
    pub(super) last: LastStep,
}

/// What the last step did.
#[derive(Debug, Default)]
pub(super) struct LastStep {
    pub(super) num_rows: usize,
    pub(super) elapsed_ms: f64,
    /// Whose requests had rows.
    pub(super) tenants: HashSet<String>,
    /// Whether it had paced work.
    pub(super) was_paced: bool,
}

impl World {
    pub(super) fn new(config: EngineConfig) -> Self {
        let mut scheduler = Scheduler::new(config, None, Arc::new(SystemClock::default())).unwrap();
        let costs = CostCurve::new(&[1, 101], &[10.0, 110.0], CostShape::default());
        scheduler.set_costs(costs.unwrap());
        Self {
            scheduler,
            now_s: 0.0,
            handle: 0,
            held: HashMap::new(),
            hiccup_ms: 0.0,
            last: LastStep::default(),
        }
    }

    pub(super) fn ask(&mut self, tenant: &str, length: usize, max_tokens: u32) {
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
    pub(super) fn keep(&mut self, tenant: &str, count: usize, length: usize, max_tokens: u32) {
        while self.held.values().filter(|one| **one == tenant).count() < count {
            self.ask(tenant, length, max_tokens);
        }
    }

    /// A step of a millisecond a row; whose requests ended with it.
    pub(super) fn step(&mut self) -> Vec<String> {
        let Some(plan) = self.scheduler.plan(self.now_s).unwrap() else {
            assert!(
                self.held.is_empty(),
                "an empty plan while requests are held"
            );
            self.last = LastStep::default();
            self.now_s += 0.01;
            return Vec::new();
        };
        let open = self.scheduler.flight.open_plan().unwrap();
        self.last = LastStep {
            num_rows: plan.num_rows(),
            elapsed_ms: 9.0 + plan.num_rows() as f64,
            tenants: HashSet::new(),
            was_paced: !open.paced.is_empty(),
        };
        let mut num_samples = 0;
        for part in &open.parts {
            let one = &self.scheduler.running[&part.key];
            self.last.tenants.insert(one.tenant.to_string());
            num_samples += match part.work {
                Work::Chunk(rows) => usize::from(one.num_missing() == rows),
                Work::Tree(_) => 1,
            };
        }
        if self.last.was_paced {
            self.last.elapsed_ms += std::mem::take(&mut self.hiccup_ms);
        }
        let elapsed_ms = self.last.elapsed_ms;
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
