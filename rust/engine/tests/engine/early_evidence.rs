//! What steps that begin early say about drafts, and that drafts come back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::driver::{config, request};
use crate::support::model::VOCABULARY;
use spectrie_engine::{
    Clock, CostShape, Engine, EngineConfig, Load, Plan, Request, StepResults, Verdicts,
};
use spectrie_types::seed::splitmix;

const FORWARD_MS: u64 = 10;

/// A clock for engine and caller that goes on by a millisecond whenever it is read.
#[derive(Debug, Default)]
struct SharedClock(AtomicU64);

impl Clock for SharedClock {
    fn now_s(&self) -> f64 {
        self.0.fetch_add(1, Ordering::Relaxed) as f64 / 1e3
    }
}

/// A device that computes one step after the other, and an engine whose plans begin early where they can.
#[cfg(test)]
struct Device {
    engine: Engine,
    clock: Arc<SharedClock>,
    starts_early: bool,
    /// When the last forward ended.
    ended_s: f64,
    num_early: usize,
    steps: usize,
}

#[cfg(test)]
impl Device {
    fn new(config: EngineConfig, costs: [f64; 2], starts_early: bool) -> Self {
        let clock = Arc::new(SharedClock::default());
        let engine = Engine::with_clock(config, clock.clone()).unwrap();
        let set = engine.set_costs(&[1, 64], &costs, CostShape::default());
        set.unwrap();
        Self {
            engine,
            clock,
            starts_early,
            ended_s: 0.0,
            num_early: 0,
            steps: 0,
        }
    }

    fn commit(&mut self, plan: &Plan, tokens: &[i32], began_s: f64) {
        self.clock.0.fetch_add(FORWARD_MS, Ordering::Relaxed);
        let now_s = self.clock.now_s();
        let elapsed_ms = (now_s - began_s.max(self.ended_s)) * 1e3;
        self.ended_s = now_s;
        let results = StepResults::from(Verdicts::drawn(tokens));
        let committed = self
            .engine
            .commit(plan.plan_id, &results, elapsed_ms, now_s);
        committed.unwrap();
        self.steps += 1;
    }

    /// Runs all requests, whose token at a position is `text` of it.
    fn run(&mut self, text: impl Fn(i32) -> u32) -> Load {
        let tokens = |plan: &Plan| -> Vec<i32> {
            let at = |&row: &i32| text(plan.row_position[row as usize] + 1) as i32;
            plan.sample_rows.iter().map(at).collect()
        };
        let mut flying: Option<(Plan, f64)> = None;
        loop {
            let begun = flying.take().or_else(|| {
                let plan = self.engine.plan(self.clock.now_s()).unwrap()?;
                Some((plan, self.clock.now_s()))
            });
            let Some((plan, began_s)) = begun else {
                return self.engine.load();
            };
            if self.starts_early {
                let early = self.engine.plan_early(self.clock.now_s()).unwrap();
                flying = early.map(|early| (early, self.clock.now_s()));
                self.num_early += usize::from(flying.is_some());
            }
            self.commit(&plan, &tokens(&plan), began_s);
        }
    }
}

/// Requests of which drafts never pay.
#[cfg(test)]
fn unpredictable(starts_early: bool) -> Device {
    let config = EngineConfig {
        holdout_every: 2,
        max_context: 200,
        ..config()
    };
    Device::new(config, [10.0, 640.0], starts_early)
}

#[cfg(test)]
fn scattered(position: i32) -> u32 {
    (splitmix(position as u64) % (VOCABULARY as u64 - 1)) as u32 + 1
}

#[test]
fn the_times_of_steps_add_up_to_the_time_that_passed() {
    for starts_early in [false, true] {
        let mut device = unpredictable(starts_early);
        device.engine.submit(request(1, &[3, 4, 5], 180)).unwrap();
        let load = device.run(scattered);
        assert_eq!(device.num_early > 100, starts_early, "{}", device.num_early);
        assert!(load.offered_steps > 50 && load.holdout_steps > 50);
        let passed_ms = device.clock.now_s() * 1e3;
        let counted_ms = load.step_ms_total + load.holdout_ms_total;
        assert!(counted_ms <= passed_ms, "{counted_ms} of {passed_ms} ms");
        assert!(
            counted_ms > 0.6 * passed_ms,
            "{counted_ms} of {passed_ms} ms"
        );
    }
}

#[test]
fn a_step_whose_rows_were_dropped_says_nothing_about_drafts() {
    let mut device = unpredictable(true);
    let mut ends = request(1, &[3, 4, 5], 100);
    ends.stop_token_ids = vec![9];
    let goes_on = request(2, &[6, 7, 8], 100);
    for one in [ends, goes_on] {
        device.engine.submit(one).unwrap();
    }
    let plan = device.engine.plan(0.0).unwrap().unwrap();
    device.commit(&plan, &[1, 2], 0.0);
    // A step that asks nobody.
    let (open, early) = loop {
        let plan = device.engine.plan(0.0).unwrap().unwrap();
        match device.engine.plan_early(0.0).unwrap() {
            Some(early) => break (plan, early),
            None => device.commit(&plan, &[1, 2], 0.0),
        }
    };
    let num_counted = |device: &Device| {
        let load = device.engine.load();
        load.offered_steps + load.holdout_steps
    };
    device.commit(&open, &[9, 2], 0.0);
    let before = num_counted(&device);
    device.commit(&early, &[4, 2], 0.0);
    assert_eq!(num_counted(&device), before);
    let plan = device.engine.plan(0.0).unwrap().unwrap();
    device.commit(&plan, &[2], 0.0);
    assert_eq!(num_counted(&device), before + 1);
}

#[test]
fn drafts_come_back_as_soon_as_in_steps_one_by_one() {
    // Nothing repeats for long; then a few tokens go round.
    let text = |position: i32| match position {
        ..400 => (splitmix(position as u64) % 5000) as u32 + 1,
        _ => 6000 + (position % 7) as u32,
    };
    let run = |starts_early: bool| {
        let config = EngineConfig {
            num_pages: 400,
            ..EngineConfig::new(8000, 400, 1000, 8)
        };
        let config = EngineConfig {
            drafting_cost_ms: Some(0.05),
            holdout_every: 0,
            page_size: 4,
            ..config
        };
        let mut device = Device::new(config, [10.0, 12.0], starts_early);
        device.engine.submit(one(600)).unwrap();
        let load = device.run(text);
        (device.steps, device.num_early, load.accepted_tokens)
    };
    let (steps, _, accepted) = run(false);
    let (early_steps, num_early, early_accepted) = run(true);
    assert!(accepted > 100 && num_early > 200, "{accepted} {num_early}");
    assert!(early_steps <= steps + 8, "{early_steps} of {steps}");
    assert!(
        early_accepted + 8 >= accepted,
        "{early_accepted} of {accepted}"
    );
}

#[cfg(test)]
fn one(max_tokens: u32) -> Request {
    request(1, &[3, 4, 5], max_tokens)
}
