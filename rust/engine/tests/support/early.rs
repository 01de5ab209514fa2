//! A device whose next forward begins before the results of the last one reached the host.

use std::collections::HashMap;
use std::sync::Arc;

use spectrie_engine::{Clock, CostShape, Engine, Plan, StepResults, TopTokens, Verdicts};

use super::device::drawn_by_device;
use super::model::{FakeModel, all_rows, wanted_logits, wanted_rows};
use super::playing::{MAX_STEPS, Seen, argmax_of_rows, begin, take};
use super::scenario::{STEP_S, Scenario};

/// What happened beside answers.
#[derive(Debug, Default)]
pub(crate) struct EarlyCounts {
    /// Plans that began early.
    pub(crate) plans: usize,
    /// Plans that could not.
    pub(crate) waited: usize,
    /// Rows of any plan that gave no token, by how the request ended.
    pub(crate) dropped: HashMap<&'static str, usize>,
}

/// A plan that the device has computed, and whose results the host may not know yet.
struct Computed {
    plan: Plan,
    drawn: Option<Vec<i32>>,
    likeliest: Option<Vec<i32>>,
    values: Vec<f32>,
    top: (Vec<i32>, Vec<f32>),
}

impl Computed {
    fn new(engine: &Engine, model: &mut FakeModel, plan: Plan, scenario: &Scenario) -> Self {
        let values = model.forward(&plan);
        let drawn = plan
            .is_drawable()
            .then(|| drawn_by_device(engine, model, &plan, &values, &scenario.visits));
        Self {
            drawn,
            likeliest: plan.is_greedy.then(|| argmax_of_rows(&values)),
            top: model.top(&plan),
            plan,
            values,
        }
    }

    /// The tokens that lie on the device.
    fn tokens(&self) -> Option<&[i32]> {
        self.likeliest.as_deref().or(self.drawn.as_deref())
    }
}

/// An early plan with the tokens that its rows stand for; 0 in place of none.
pub(crate) fn resolved(mut plan: Plan, tokens: &[i32]) -> Plan {
    for token in &mut plan.row_token {
        // Those of prompts are known.
        if *token <= -2 {
            *token = tokens[(-2 - *token) as usize].max(0);
        }
    }
    plan
}

/// Runs a scenario to its end, early wherever the engine lets it.
pub(crate) fn run_early(
    scenario: &Scenario,
    clock: Arc<dyn Clock>,
) -> (HashMap<u64, Seen>, EarlyCounts) {
    let engine = Engine::with_clock(scenario.config.clone(), clock).unwrap();
    if let Some((rows, milliseconds)) = &scenario.costs {
        engine
            .set_costs(rows, milliseconds, CostShape::default())
            .unwrap();
    }
    let mut model = FakeModel::new(scenario.config.num_pages);
    let mut seen: HashMap<u64, Seen> = HashMap::new();
    let mut counts = EarlyCounts::default();
    let mut flying: Option<Computed> = None;
    for step in 0.. {
        assert!(step < MAX_STEPS, "starvation");
        let now_s = step as f64 * STEP_S;
        for visit in &scenario.visits {
            if visit.arrives_at_step == step {
                seen.insert(visit.request.handle, Seen::default());
                engine.submit(begin(visit)).unwrap();
            }
        }
        let cancel = |is_odd: bool| {
            for visit in &scenario.visits {
                let handle = visit.request.handle;
                if visit.cancelled_at_step == Some(step) && (handle % 2 == 1) == is_odd {
                    engine.cancel(handle, None, false);
                }
            }
        };
        cancel(false);
        let computed = flying.take().or_else(|| {
            let plan = engine.plan(now_s).unwrap();
            take(&mut seen, engine.take_outputs().unwrap());
            plan.map(|plan| Computed::new(&engine, &mut model, plan, scenario))
        });
        let Some(computed) = computed else {
            cancel(true);
            if scenario
                .visits
                .iter()
                .all(|visit| visit.arrives_at_step <= step)
            {
                break;
            }
            continue;
        };
        if let Some(tokens) = computed.tokens() {
            let early = engine.plan_early(now_s).unwrap();
            match &early {
                Some(_) => counts.plans += 1,
                None => counts.waited += 1,
            }
            flying = early
                .map(|plan| Computed::new(&engine, &mut model, resolved(plan, tokens), scenario));
        }
        // Some come while two forwards are in flight.
        cancel(true);
        let handles = &computed.plan.request_handle;
        let num_before: Vec<usize> = handles
            .iter()
            .map(|handle| seen[handle].tokens.len())
            .collect();
        let (ids, probabilities) = &computed.top;
        let wanted = wanted_logits(&computed.plan, &computed.values);
        let verdicts = match (step % 2, &computed.likeliest, &computed.drawn) {
            (0, Some(tokens), _) => Verdicts::Tokens(tokens),
            (_, _, Some(tokens)) => Verdicts::Drawn {
                tokens,
                logits: wanted_rows(&wanted),
            },
            _ => all_rows(&computed.plan, &computed.values),
        };
        let results = StepResults {
            verdicts,
            top: Some(TopTokens { ids, probabilities }),
            compacted: step % 3 > 0 && model.compact(&computed.plan, &verdicts),
        };
        let elapsed_ms = 1.0 + computed.plan.num_rows() as f64;
        let outputs = engine.commit(computed.plan.plan_id, &results, elapsed_ms, now_s);
        take(&mut seen, outputs.unwrap());
        for (handle, num_before) in handles.iter().zip(num_before) {
            let one = &seen[handle];
            if let Some(finish) = one
                .finish
                .as_ref()
                .filter(|_| one.tokens.len() == num_before)
            {
                *counts.dropped.entry(finish.kind.name()).or_default() += 1;
            }
        }
    }
    let load = engine.load();
    assert_eq!((load.pages_used, load.running, load.waiting), (0, 0, 0));
    (seen, counts)
}
