//! Random traffic of many steps, with every invariant checked after each one against a naive model.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use spectrie_trie::{DraftMemory, MemoryConfig};
use spectrie_types::FinishKind;
use spectrie_types::seed::splitmix;
use spectrie_types::sizes::MAX_DRAFTERS;

use super::dice::{Dice, STEP_S};
use crate::clock::{Clock, Ticking};
use crate::config::EngineConfig;
use crate::costs::ForwardSize;
use crate::forward::{StepResults, TopTokens};
use crate::output::{Load, RequestOutput};
use crate::plan::Plan;
use crate::request::Request;
use crate::scheduling::flight::Work;
use crate::scheduling::running::residents;
use crate::scheduling::{Cancel, Scheduler};

#[path = "counts.rs"]
mod counts;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../../tests/support/expression.rs"]
mod expression;
#[path = "fake_head.rs"]
mod fake_head;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../../tests/support/head.rs"]
mod head;
#[path = "head_traffic.rs"]
mod head_traffic;
#[path = "levels.rs"]
mod levels;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../../tests/support/model.rs"]
mod model;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../../tests/support/reference.rs"]
mod reference;

use counts::Counts;
use fake_head::FakeHead;
use head::{Head, Script};
use model::{FakeModel, PAGE_SIZE, all_rows};

/// More are not held at once: waiting is bounded only where those who came before are.
const MAX_HELD: usize = 24;
/// Far above any normal wait; a request that waits this long is starved.
const MAX_WAIT_STEPS: usize = 2_500;

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
    /// In runs with drafters, until each is given up.
    heads: Vec<FakeHead>,
    /// What each answers, by their numbers.
    answers: [Head; MAX_DRAFTERS],
    held: BTreeMap<u64, Ticket>,
    num_handles: u64,
    step: usize,
    counts: Counts,
    /// Requests arrive once in so many steps.
    arrival_steps: usize,
    /// Whether forwards begin before the results of those before them are known.
    starts_early: bool,
    /// Whether drafters fall asleep and wake at any time.
    nods: bool,
    /// The plan that began early, and its logits.
    early: Option<(Plan, Vec<f32>)>,
    /// What the next call that may end requests ends.
    cancels: Vec<Cancel>,
}

impl Traffic {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(splitmix(seed));
        let config = dice.config();
        // To half of the engines drafting takes no time, to the others a large part of a step.
        Self::of(dice, config, Arc::new(Ticking::by(seed % 2)))
    }

    fn of(dice: Dice, config: EngineConfig, clock: Arc<dyn Clock>) -> Self {
        let memory = MemoryConfig {
            capacity_bytes: config.memory_bytes,
            ..MemoryConfig::default()
        };
        let memory = DraftMemory::new(memory).map(Arc::new).unwrap();
        Self {
            model: FakeModel::new(config.num_pages),
            heads: Vec::new(),
            answers: [(); MAX_DRAFTERS].map(|()| Head::new(Script::Right)),
            scheduler: Scheduler::new(config, Some(memory), clock).unwrap(),
            dice,
            held: BTreeMap::new(),
            num_handles: 0,
            step: 0,
            counts: Counts::default(),
            arrival_steps: 3,
            starts_early: false,
            nods: false,
            early: None,
            cancels: Vec::new(),
        }
    }

    fn now_s(&self) -> f64 {
        self.step as f64 * STEP_S
    }

    fn arrive(&mut self) {
        let request = self.dice.request(self.step);
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
            self.cancels.push(cancel);
        }
        if self.dice.once_in(500) && self.early.is_none() {
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
        if arrivals && self.held.len() < MAX_HELD && self.dice.once_in(self.arrival_steps) {
            self.arrive();
        }
        self.disturb();
        let now_s = self.now_s();
        let computed = self.early.take().or_else(|| self.compute());
        if let Some((plan, values)) = computed {
            let early = self.start_early(&plan);
            let fails = self.dice.once_in(60);
            for head in self.heads.iter_mut().filter(|_| fails) {
                head.disturb();
            }
            let outputs = if fails {
                self.scheduler
                    .fail(plan.plan_id, "no memory", now_s)
                    .unwrap()
            } else {
                self.early = early;
                self.commit(&plan, &values)
            };
            self.take(outputs, fails);
            if self.early.is_some() {
                let cancels = std::mem::take(&mut self.cancels);
                self.scheduler.end_meanwhile(&cancels, now_s);
            }
        } else {
            assert!(self.held.is_empty(), "nothing runs while requests wait");
            self.rest();
        }
        check_pages(&self.scheduler);
        for (handle, ticket) in &self.held {
            let waited = self.step - ticket.came_at_step;
            assert!(waited < MAX_WAIT_STEPS, "request {handle} is starved");
        }
    }

    /// The next plan, and its logits.
    fn compute(&mut self) -> Option<(Plan, Vec<f32>)> {
        let now_s = self.now_s();
        for cancel in std::mem::take(&mut self.cancels) {
            self.scheduler.cancel(&cancel, now_s);
        }
        self.ask();
        let plan = self.scheduler.plan(now_s).unwrap();
        let ends = self.scheduler.take_outputs();
        self.take(ends, false);
        let plan = plan?;
        self.check_plan(&plan);
        check_pages(&self.scheduler);
        self.heads.iter_mut().for_each(|head| head.forward(&plan));
        let values = self.model.forward(&plan);
        Some((plan, values))
    }

    /// The plan behind `plan`, if it may begin, and its logits. Rows of requests that have ended compute
    /// anything.
    fn start_early(&mut self, plan: &Plan) -> Option<(Plan, Vec<f32>)> {
        let now_s = self.now_s();
        if !self.starts_early {
            return None;
        }
        let mut early = self.scheduler.plan_early(now_s)?;
        // Tokens of prompts are known.
        for token in early.row_token.iter_mut().filter(|token| **token < -1) {
            let row = plan.sample_rows[(-2 - *token) as usize] as usize;
            let handle = plan.request_handle[plan.row_owner[row] as usize];
            let tokens = self.model.visible(plan, row);
            let ticket = self.held.get(&handle);
            let drawn = ticket.and_then(|one| reference::drawn_after(&one.request, None, &tokens));
            *token = drawn.map_or(0, |drawn| drawn as i32);
        }
        self.counts.early_plans += 1;
        check_pages(&self.scheduler);
        let values = self.model.forward(&early);
        Some((early, values))
    }

    fn commit(&mut self, plan: &Plan, values: &[f32]) -> Vec<RequestOutput> {
        let (ids, probabilities) = self.model.top(plan);
        let results = StepResults {
            verdicts: all_rows(plan, values),
            top: Some(TopTokens {
                ids: &ids,
                probabilities: &probabilities,
            }),
            compacted: false,
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
        // Paced work has a limit of its own.
        let most_ms = config.max_step_ms.max(scheduler.pacing.longest_ms());
        assert!(num_trees == 0 || num_chunk <= PAGE_SIZE || price <= most_ms);
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

/// Lets an engine come to its end, and adds what happened in it.
fn end(mut traffic: Traffic, all: &mut Counts) -> Load {
    while !traffic.held.is_empty() || traffic.early.is_some() {
        traffic.step(false);
    }
    let load = traffic.scheduler.load();
    assert_eq!((load.running, load.waiting, load.pages_used), (0, 0, 0));
    assert_eq!(traffic.counts.ended, traffic.num_handles);
    all.add(&traffic.counts);
    load
}

/// Runs `num_runs` engines of different sizes for `num_steps` each, then lets them come to their end.
fn run(num_runs: u64, num_steps: usize, starts_early: bool) -> (Counts, u64, u64) {
    let mut all = Counts::default();
    let (mut preemptions, mut hits) = (0, 0);
    for seed in 0..num_runs {
        let mut traffic = Traffic::new(seed);
        if starts_early {
            // Nothing begins early while requests wait.
            traffic.starts_early = true;
            traffic.arrival_steps = 15;
        }
        for _ in 0..num_steps {
            traffic.step(true);
        }
        let load = end(traffic, &mut all);
        preemptions += load.preemptions;
        hits += load.prefix_hit_tokens;
    }
    (all, preemptions, hits)
}

#[test]
fn a_hundred_thousand_random_steps_keep_every_promise() {
    let (counts, preemptions, hits) = run(20, 5_000, false);
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
fn a_hundred_thousand_random_steps_that_begin_early_keep_every_promise() {
    let (counts, preemptions, _) = run(20, 5_000, true);
    assert!(
        counts.ended > 5_000 && counts.by_deadline > 20 && counts.early_plans > 2_000,
        "{counts:?}"
    );
    assert!(preemptions > 20, "{preemptions}");
}

#[test]
#[ignore = "deep: minutes"]
fn two_million_random_steps_keep_every_promise() {
    let (counts, preemptions, _) = run(200, 10_000, false);
    assert!(
        counts.ended > 200_000 && preemptions > 10_000,
        "{counts:?} {preemptions}"
    );
}
