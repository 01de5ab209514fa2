//! Random traffic of many steps, with every invariant checked after each one against a naive model.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use spectrie_trie::{DraftMemory, MemoryConfig};
use spectrie_types::seed::splitmix;
use spectrie_types::{FinishKind, Recycle, SpeculationMode};

use crate::clock::SystemClock;
use crate::config::EngineConfig;
use crate::costs::ForwardSize;
use crate::forward::{StepResults, TopTokens, Verdicts};
use crate::output::RequestOutput;
use crate::plan::Plan;
use crate::request::Request;
use crate::scheduling::open_plan::Work;
use crate::scheduling::running::residents;
use crate::scheduling::{Cancel, Scheduler};

#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../../tests/support/expression.rs"]
mod expression;
#[path = "../../../tests/support/model.rs"]
mod model;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../../tests/support/reference.rs"]
mod reference;

use model::{FakeModel, PAGE_SIZE, STRIDE, VOCABULARY};

const MAX_CONTEXT: usize = 90;
/// What one step takes on the clock of the traffic.
const STEP_S: f64 = 0.01;
/// More are not held at once: waiting is bounded only where those who came before are.
const MAX_HELD: usize = 24;
/// Far above any normal wait; a request that waits this long is starved.
const MAX_WAIT_STEPS: usize = 2_500;

/// Numbers that look random, the same on every machine.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(1);
        (splitmix(self.0) >> 16) as usize % end
    }

    /// True once in `times`.
    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

/// A request as the traffic knows it.
struct Ticket {
    request: Request,
    tokens: Vec<u32>,
    came_at_step: usize,
    /// Whether somebody asked for it to end.
    is_cancelled: bool,
}

struct Traffic {
    dice: Dice,
    scheduler: Scheduler,
    model: FakeModel,
    held: BTreeMap<u64, Ticket>,
    num_handles: u64,
    step: usize,
    counts: Counts,
}

/// Counts of events, to check that the traffic reached the intended cases.
#[derive(Debug, Default)]
struct Counts {
    ended: u64,
    by_deadline: u64,
    shared_pages: u64,
    copies: u64,
    longest_wait: usize,
}

fn config(dice: &mut Dice) -> EngineConfig {
    let max_running = 1 + dice.below(8);
    let modes = [
        SpeculationMode::Off,
        SpeculationMode::Auto,
        SpeculationMode::Prob,
    ];
    EngineConfig {
        eos_token_ids: vec![0],
        page_size: PAGE_SIZE,
        chunk_tokens: 1 + dice.below(40),
        max_batch_rows: max_running + dice.below(60),
        max_step_ms: [200.0, 20.0][dice.below(2)],
        age_s: [0.05, 0.5][dice.below(2)],
        lookahead_tokens: [0, 4, 30][dice.below(3)],
        speculation: modes[dice.below(3)],
        max_draft_tokens: dice.below(12),
        recycle: Recycle::Decode,
        memory_bytes: 4 << 20,
        // Any one request fits.
        ..EngineConfig::new(VOCABULARY, 18 + dice.below(40), MAX_CONTEXT, max_running)
    }
}

impl Traffic {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(splitmix(seed));
        let config = config(&mut dice);
        let memory = MemoryConfig {
            capacity_bytes: config.memory_bytes,
            ..MemoryConfig::default()
        };
        let memory = DraftMemory::new(memory).map(Arc::new).unwrap();
        Self {
            model: FakeModel::new(config.num_pages),
            scheduler: Scheduler::new(config, Some(memory), Arc::new(SystemClock::default()))
                .unwrap(),
            dice,
            held: BTreeMap::new(),
            num_handles: 0,
            step: 0,
            counts: Counts::default(),
        }
    }

    fn now_s(&self) -> f64 {
        self.step as f64 * STEP_S
    }

    fn request(&mut self) -> Request {
        let dice = &mut self.dice;
        let (text, length) = (dice.below(5), dice.below(34));
        let beginning = (0..length).map(|index| (7 * index + text) as u32 % 30 + 1);
        let num_own = 1 + dice.below(6);
        let prompt: Vec<u32> = beginning
            .chain((0..num_own).map(|_| 1 + dice.below(VOCABULARY - 1) as u32))
            .collect();
        let mut request = Request::new(0, prompt, 1 + dice.below(30) as u32);
        request.namespace = ["a", "a", "b"][dice.below(3)].into();
        request.tenant = [None, Some("x".into()), Some("y".into())][dice.below(3)].clone();
        request.priority = [0, 0, 0, -1, 1, 3, 1000][dice.below(7)];
        request.learn = !dice.once_in(8);
        request.ignore_eos = dice.once_in(2);
        request.sampling.temperature = [0.0, 0.8][dice.below(2)];
        if dice.once_in(10) {
            request.deadline_s = Some(self.step as f64 * STEP_S + dice.below(100) as f64 * STEP_S);
        }
        if dice.once_in(15) {
            request.prompt_logprobs = Some(1);
        }
        request
    }

    fn arrive(&mut self) {
        let request = self.request();
        for _ in 0..[1, 1, 2, 4][self.dice.below(4)] {
            self.num_handles += 1;
            let mut choice = request.clone();
            choice.handle = self.num_handles;
            choice.choice_seed = self.num_handles;
            self.scheduler
                .submit(choice.clone(), self.now_s(), self.now_s());
            let ticket = Ticket {
                request: choice,
                tokens: Vec::new(),
                came_at_step: self.step,
                is_cancelled: false,
            };
            self.held.insert(self.num_handles, ticket);
        }
    }

    fn disturb(&mut self) {
        if self.dice.once_in(40) && !self.held.is_empty() {
            let index = self.dice.below(self.held.len());
            let (&handle, ticket) = self.held.iter_mut().nth(index).unwrap();
            ticket.is_cancelled = true;
            let cancel = Cancel {
                handle,
                keep_tokens: None,
                finished: false,
            };
            self.scheduler.cancel(&cancel, self.step as f64 * STEP_S);
        }
        if self.dice.once_in(500) {
            self.scheduler.forget("a");
        }
    }

    fn take(&mut self, outputs: Vec<RequestOutput>, failed: bool) {
        for output in outputs {
            let ticket = self.held.get_mut(&output.handle);
            let ticket = ticket.expect("an output after the end");
            ticket.tokens.extend(output.token_ids);
            let Some(finish) = output.finish else {
                continue;
            };
            let (expected, kind) = reference::decode(&ticket.request);
            assert!(expected.starts_with(&ticket.tokens));
            match finish.kind {
                FinishKind::Cancelled => assert!(ticket.is_cancelled),
                FinishKind::Deadline => {
                    assert!(ticket.request.deadline_s.unwrap() <= self.step as f64 * STEP_S);
                }
                FinishKind::Failed => assert!(failed),
                other => assert_eq!((other, ticket.tokens.len()), (kind, expected.len())),
            }
            let waited = self.step - ticket.came_at_step;
            self.counts.longest_wait = self.counts.longest_wait.max(waited);
            self.counts.ended += 1;
            self.counts.by_deadline += u64::from(finish.kind == FinishKind::Deadline);
            self.held.remove(&output.handle);
        }
    }

    fn step(&mut self, arrivals: bool) {
        self.step += 1;
        if arrivals && self.held.len() < MAX_HELD && self.dice.once_in(3) {
            self.arrive();
        }
        self.disturb();
        let now_s = self.now_s();
        let plan = self.scheduler.plan(now_s).unwrap();
        let ends = self.scheduler.take_outputs();
        self.take(ends, false);
        if let Some(plan) = plan {
            self.check_plan(&plan);
            check_pages(&self.scheduler);
            let fails = self.dice.once_in(60);
            let outputs = if fails {
                self.scheduler
                    .fail(plan.plan_id, "no memory", now_s)
                    .unwrap()
            } else {
                self.forward(&plan)
            };
            self.take(outputs, fails);
        } else {
            assert!(self.held.is_empty(), "nothing runs while requests wait");
        }
        check_pages(&self.scheduler);
        for (handle, ticket) in &self.held {
            let waited = self.step - ticket.came_at_step;
            assert!(waited < MAX_WAIT_STEPS, "request {handle} is starved");
        }
    }

    fn forward(&mut self, plan: &Plan) -> Vec<RequestOutput> {
        let values = self.model.forward(plan);
        let (ids, probabilities) = self.model.top(plan);
        let results = StepResults {
            verdicts: Verdicts::Logits {
                values: &values,
                num_rows: plan.num_samples(),
                row_stride: STRIDE,
            },
            top: Some(TopTokens {
                ids: &ids,
                probabilities: &probabilities,
            }),
        };
        let elapsed_ms = 1.0 + plan.num_rows() as f64 / 2.0;
        self.scheduler
            .commit(plan.plan_id, &results, elapsed_ms, self.now_s())
            .unwrap()
    }

    /// No step does more than it may.
    fn check_plan(&mut self, plan: &Plan) {
        let scheduler = &self.scheduler;
        let config = scheduler.admission.config();
        assert!(plan.num_rows() <= config.max_batch_rows);
        assert!(scheduler.running.len() <= config.max_running);
        let open = scheduler.flight.open_plan().unwrap();
        let (mut num_trees, mut num_chunk) = (0, 0);
        let mut size = ForwardSize::default();
        for part in &open.parts {
            let kv_len = scheduler.running[&part.key].kv_len();
            match &part.work {
                Work::Tree(tree) => {
                    num_trees += 1;
                    size = size + ForwardSize::of_tree(kv_len, 1, 1);
                    assert!(tree.num_nodes() <= config.max_draft_tokens);
                }
                Work::Chunk(rows) => {
                    num_chunk += rows;
                    size = size + ForwardSize::of_chunk(kv_len, *rows, 1);
                }
            }
        }
        assert!(num_chunk <= config.chunk_tokens);
        let price = scheduler.speculator.costs().milliseconds(size);
        assert!(num_trees == 0 || num_chunk <= PAGE_SIZE || price <= config.max_step_ms);
        let mut holders: HashMap<u32, usize> = HashMap::new();
        for sequence in scheduler.running.values() {
            for &page in sequence.table.pages() {
                *holders.entry(page).or_default() += 1;
            }
        }
        for &slot in plan.kv_move_dst.iter().chain(&plan.row_slot) {
            let page = slot as u32 / PAGE_SIZE as u32;
            assert_eq!(holders[&page], 1, "page {page} is written to");
        }
        self.counts.shared_pages += holders.values().filter(|&&count| count > 1).count() as u64;
        self.counts.copies += plan.kv_move_src.len() as u64;
    }
}

/// The cache agrees with who runs and who waits.
fn check_pages(scheduler: &Scheduler) {
    let waiting = scheduler.admission.waiting();
    let waiting = waiting.map(|(key, one)| one.resident(key));
    scheduler
        .cache
        .check(residents(&scheduler.running, |_| true), waiting);
}

/// Runs `num_runs` engines of different sizes for `num_steps` each, then lets them come to their end.
fn run(num_runs: u64, num_steps: usize) -> (Counts, u64, u64) {
    let mut all = Counts::default();
    let (mut preemptions, mut hits) = (0, 0);
    for seed in 0..num_runs {
        let mut traffic = Traffic::new(seed);
        for _ in 0..num_steps {
            traffic.step(true);
        }
        while !traffic.held.is_empty() {
            traffic.step(false);
        }
        let load = traffic.scheduler.load();
        assert_eq!((load.running, load.waiting, load.pages_used), (0, 0, 0));
        assert_eq!(traffic.counts.ended, traffic.num_handles);
        all.ended += traffic.counts.ended;
        all.by_deadline += traffic.counts.by_deadline;
        all.shared_pages += traffic.counts.shared_pages;
        all.copies += traffic.counts.copies;
        all.longest_wait = all.longest_wait.max(traffic.counts.longest_wait);
        preemptions += load.preemptions;
        hits += load.prefix_hit_tokens;
    }
    (all, preemptions, hits)
}

#[test]
fn a_hundred_thousand_random_steps_keep_every_promise() {
    let (counts, preemptions, hits) = run(20, 5_000);
    assert!(
        counts.ended > 10_000 && counts.by_deadline > 100,
        "{counts:?}"
    );
    assert!(
        counts.shared_pages > 10_000 && counts.copies > 10_000,
        "{counts:?}"
    );
    assert!(preemptions > 500 && hits > 50_000, "{preemptions} {hits}");
}

#[test]
#[ignore = "deep: minutes"]
fn two_million_random_steps_keep_every_promise() {
    let (counts, preemptions, _) = run(200, 10_000);
    assert!(
        counts.ended > 200_000 && preemptions > 10_000,
        "{counts:?} {preemptions}"
    );
}
