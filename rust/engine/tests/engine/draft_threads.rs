//! What is drafted on several threads is what one thread drafts.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use crate::support::driver::{config, request};
use crate::support::model::{FakeModel, all_rows};
use crate::support::playing::{MAX_STEPS, begin};
use crate::support::scenario::{STEP_S, Scenario, scenario};
use proptest::prelude::*;
use spectrie_engine::{
    Clock, CostShape, Engine, EngineConfig, EngineError, Plan, StepResults, TopTokens,
};
use spectrie_trie::Visits;
use spectrie_types::SpeculationMode;

const REQUESTS: u64 = 24;

/// Far above what any thread waits for another.
const LIMIT: Duration = Duration::from_secs(60);

/// A clock by which each draft takes so many microseconds.
#[derive(Debug)]
struct SlowDrafts {
    draft_us: u64,
    passed_us: AtomicU64,
}

impl SlowDrafts {
    fn of(draft_us: u64) -> Self {
        Self {
            draft_us,
            passed_us: AtomicU64::new(0),
        }
    }
}

impl Clock for SlowDrafts {
    fn now_s(&self) -> f64 {
        self.passed_us.load(Ordering::Relaxed) as f64 / 1e6
    }

    fn drafted(&self, _: Visits) {
        self.passed_us.fetch_add(self.draft_us, Ordering::Relaxed);
    }
}

/// An engine whose cheap rows are worth many drafts.
#[cfg(test)]
fn engine(config: EngineConfig, clock: Arc<dyn Clock>) -> Engine {
    let engine = Engine::with_clock(config, clock).unwrap();
    let costs = engine.set_costs(&[1, 400], &[10.0, 12.0], CostShape::default());
    costs.unwrap();
    engine
}

/// An engine of `threads` threads with many requests whose prompts repeat themselves.
#[cfg(test)]
fn many(threads: usize, drafting_cost_ms: Option<f64>, clock: Arc<dyn Clock>) -> Engine {
    submitted(engine(
        EngineConfig {
            drafting_cost_ms,
            draft_threads: threads,
            max_batch_rows: 400,
            max_running: REQUESTS as usize,
            num_pages: 600,
            ..config()
        },
        clock,
    ))
}

/// `engine` with many requests whose prompts repeat themselves.
#[cfg(test)]
fn submitted(engine: Engine) -> Engine {
    for handle in 0..REQUESTS {
        let first = handle as u32 % 5 + 1;
        let prompt_ids = [first, first + 1, first, first + 1, 7];
        engine.submit(request(handle, &prompt_ids, 60)).unwrap();
    }
    engine
}

#[cfg(test)]
fn commit(engine: &Engine, model: &mut FakeModel, plan: &Plan, now_s: f64) {
    let values = model.forward(plan);
    let (ids, probabilities) = model.top(plan);
    let results = StepResults {
        verdicts: all_rows(plan, &values),
        top: Some(TopTokens {
            ids: &ids,
            probabilities: &probabilities,
        }),
        compacted: false,
    };
    engine.commit(plan.plan_id, &results, 1.0, now_s).unwrap();
}

/// All further plans, and what was drafted, accepted and asked.
#[cfg(test)]
fn run(engine: &Engine) -> (Vec<Plan>, [u64; 3]) {
    let mut model = FakeModel::new(600);
    let mut plans = Vec::new();
    while let Some(plan) = engine.plan(0.0).unwrap() {
        commit(engine, &mut model, &plan, 0.0);
        plans.push(plan);
    }
    let load = engine.load();
    let counts = [load.drafted_tokens, load.accepted_tokens, load.draft_calls];
    (plans, counts)
}

/// All plans of a scenario, where asking counts as nothing that is measured.
#[cfg(test)]
fn plans(scenario: &Scenario, threads: usize) -> Vec<Plan> {
    let config = EngineConfig {
        drafting_cost_ms: Some(0.05),
        draft_threads: threads,
        ..scenario.config.clone()
    };
    let mut model = FakeModel::new(config.num_pages);
    let engine = engine(config, Arc::new(SlowDrafts::of(1000)));
    let mut plans = Vec::new();
    for step in 0..MAX_STEPS {
        let now_s = step as f64 * STEP_S;
        for visit in &scenario.visits {
            if visit.arrives_at_step == step {
                engine.submit(begin(visit)).unwrap();
            }
            if visit.cancelled_at_step == Some(step) {
                engine.cancel(visit.request.handle, None, false);
            }
        }
        let plan = engine.plan(now_s).unwrap();
        engine.take_outputs().unwrap();
        if let Some(plan) = plan {
            commit(&engine, &mut model, &plan, now_s);
            plans.push(plan);
        } else if scenario
            .visits
            .iter()
            .all(|visit| visit.arrives_at_step <= step)
        {
            return plans;
        }
    }
    panic!("starvation");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150,
        rng_seed: proptest::test_runner::RngSeed::Fixed(21),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn plans_of_random_traffic_do_not_depend_on_the_number_of_threads(
        scenario in scenario(SpeculationMode::Auto),
    ) {
        let expected = plans(&scenario, 1);
        for threads in [2, 8] {
            prop_assert!(plans(&scenario, threads) == expected, "{} threads", threads);
        }
    }
}

#[test]
fn plans_with_many_drafts_are_equal_byte_for_byte() {
    let clock = || Arc::new(SlowDrafts::of(1000));
    let (expected, counts) = run(&many(1, Some(0.05), clock()));
    assert!(counts[0] > 500 && counts[1] > 50, "{counts:?}");
    for threads in [2, 3, 8] {
        let (plans, others) = run(&many(threads, Some(0.05), clock()));
        assert_eq!(others, counts, "{threads} threads");
        assert!(plans == expected, "{threads} threads");
    }
}

#[test]
fn questions_in_vain_stay_rare_on_several_threads() {
    // A draft takes a tenth of a step, so that hardly any pays.
    let clock = || Arc::new(SlowDrafts::of(1000));
    let [_, _, one] = run(&many(1, None, clock())).1;
    let [_, _, four] = run(&many(4, None, clock())).1;
    assert!(one > 0 && four > 0, "{one} {four}");
    // What is left of the allowance is not spent by all of them at once.
    assert!(four <= one + 4, "{one} {four}");
}

/// Notes which threads draft. Each waits in its draft until as many as `num_meeting` do.
#[derive(Debug)]
struct Watch {
    time: SlowDrafts,
    seen: Mutex<Watched>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Watched {
    threads: HashSet<ThreadId>,
    num_meeting: usize,
    /// The thread whose drafts do not panic, where others' do.
    spared: Option<ThreadId>,
    panics: usize,
}

impl Watch {
    fn of(draft_us: u64) -> Arc<Self> {
        Arc::new(Self {
            time: SlowDrafts::of(draft_us),
            seen: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    fn seen(&self) -> MutexGuard<'_, Watched> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for Watch {
    fn now_s(&self) -> f64 {
        self.time.now_s()
    }

    fn drafted(&self, visits: Visits) {
        self.time.drafted(visits);
        let mut seen = self.seen();
        seen.threads.insert(thread::current().id());
        self.changed.notify_all();
        let is_alone = |seen: &mut Watched| seen.threads.len() < seen.num_meeting;
        let waited = self.changed.wait_timeout_while(seen, LIMIT, is_alone);
        let (mut seen, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(!waited.timed_out(), "no other thread drafts");
        if seen
            .spared
            .is_some_and(|spared| spared != thread::current().id())
        {
            seen.panics += 1;
            drop(seen);
            panic!("a draft broke");
        }
    }
}

/// Steps until one has asked for drafts, so that it is known what that takes.
#[cfg(test)]
fn ask_once(engine: &Engine) {
    let mut model = FakeModel::new(600);
    while engine.load().draft_calls == 0 {
        let plan = engine.plan(0.0).unwrap().unwrap();
        commit(engine, &mut model, &plan, 0.0);
    }
}

#[test]
fn as_many_threads_draft_at_once_as_there_may_be() {
    let watch = Watch::of(1000);
    let engine = many(3, Some(0.05), watch.clone());
    ask_once(&engine);
    assert_eq!(watch.seen().threads.len(), 1);
    watch.seen().num_meeting = 3;
    engine.plan(0.0).unwrap().unwrap();
    assert_eq!(watch.seen().threads.len(), 3);
}

#[test]
fn one_thread_drafts_where_there_is_little_to_do() {
    // 24 drafts of a microsecond; one of a millisecond; a single thread allowed.
    let here = HashSet::from([thread::current().id()]);
    let little = Watch::of(1);
    run(&many(8, Some(0.05), little.clone()));
    assert_eq!(little.seen().threads, here);

    let alone = Watch::of(1000);
    let one = EngineConfig {
        draft_threads: 8,
        ..config()
    };
    let one = engine(one, alone.clone());
    one.submit(request(1, &[3, 4, 3, 4, 3, 4, 7], 60)).unwrap();
    assert!(run(&one).1[2] > 20);
    assert_eq!(alone.seen().threads, here);

    let forbidden = Watch::of(1000);
    run(&many(1, Some(0.05), forbidden.clone()));
    assert_eq!(forbidden.seen().threads, here);
}

#[test]
fn a_draft_that_panics_on_another_thread_stops_the_engine_as_one_on_this_does() {
    for spared in [
        thread::current().id(),
        thread::spawn(|| thread::current().id()).join().unwrap(),
    ] {
        let watch = Watch::of(1000);
        let engine = many(3, Some(0.05), watch.clone());
        ask_once(&engine);
        // Every thread is in a draft before one panics.
        watch.seen().num_meeting = 3;
        watch.seen().spared = Some(spared);
        let panic = catch_unwind(AssertUnwindSafe(|| engine.plan(0.0))).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"a draft broke"));
        assert!(watch.seen().panics >= 2);
        assert!(matches!(engine.plan(0.0), Err(EngineError::Stopped)));
    }
}

#[test]
fn threads_that_draft_get_along_with_those_that_learn() {
    let config = EngineConfig {
        overlap: true,
        drafting_cost_ms: Some(0.05),
        draft_threads: 4,
        max_batch_rows: 400,
        max_running: REQUESTS as usize,
        num_pages: 600,
        ..config()
    };
    let engine = submitted(engine(config, Arc::new(SlowDrafts::of(1000))));
    let is_over = AtomicBool::new(false);
    let counts = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                engine.learn("default", &[3, 4, 3, 4, 7, 5, 6]).unwrap();
            }
        });
        let counts = catch_unwind(AssertUnwindSafe(|| run(&engine).1));
        // The other thread ends whatever happened.
        is_over.store(true, Ordering::Relaxed);
        counts.unwrap()
    });
    assert!(counts[1] > 50, "{counts:?}");
    assert_eq!(engine.load().generated_tokens, REQUESTS * 60);
}

#[test]
fn threads_end_with_the_engine() {
    let watch = Watch::of(1000);
    let engine = many(3, Some(0.05), watch.clone());
    ask_once(&engine);
    watch.seen().num_meeting = 3;
    engine.plan(0.0).unwrap().unwrap();
    drop(engine);
    // Each of them holds the clock.
    let began = Instant::now();
    while Arc::strong_count(&watch) > 1 {
        assert!(began.elapsed() < LIMIT, "threads are left");
        thread::sleep(Duration::from_millis(1));
    }
}
