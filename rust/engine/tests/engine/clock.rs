//! The engine reads the clock it is given, and no other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::driver::{config, request};
use crate::support::model::{FakeModel, all_rows};
use spectrie_engine::{Clock, Engine};

/// A clock that a test moves.
#[derive(Debug, Default)]
struct ManualClock(AtomicU64);

impl ManualClock {
    fn advance_ms(&self, milliseconds: u64) {
        self.0.fetch_add(milliseconds, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now_s(&self) -> f64 {
        self.0.load(Ordering::Relaxed) as f64 / 1e3
    }
}

#[test]
fn waiting_in_the_inbox_counts_by_the_clock_and_the_rest_by_the_callers_times() {
    let clock = Arc::new(ManualClock::default());
    let engine = Engine::with_clock(config(), Arc::clone(&clock) as Arc<dyn Clock>).unwrap();
    let mut model = FakeModel::new(config().num_pages);
    engine.submit(request(1, &[5; 3], 2)).unwrap();
    clock.advance_ms(1_500);
    engine.submit(request(2, &[6; 3], 2)).unwrap();
    clock.advance_ms(500);
    let mut now_s = 100.0;
    let mut finishes = Vec::new();
    while let Some(plan) = engine.plan(now_s).unwrap() {
        // Time between two calls is charged to no request.
        clock.advance_ms(7_000);
        now_s += 1.0;
        let values = model.forward(&plan);
        let verdicts = all_rows(&plan, &values);
        let outputs = engine.commit(plan.plan_id, &verdicts.into(), 1.0, now_s);
        let ended = outputs.unwrap().into_iter();
        finishes.extend(ended.filter_map(|one| Some((one.handle, one.finish?.stats))));
    }
    finishes.sort_by_key(|(handle, _)| *handle);
    let times: Vec<[u64; 3]> = finishes
        .iter()
        .map(|(_, stats)| [stats.queue_ns, stats.prefill_ns, stats.decode_ns])
        .collect();
    let second = 1_000_000_000;
    assert_eq!(
        times,
        [[2 * second, second, second], [second / 2, second, second]]
    );
    // The clock stood still while drafts were made.
    assert!(engine.load().draft_seconds.abs() < 1e-12);
}
