//! A walk along tokens that were drawn where it was not known what decides them.

use std::sync::Arc;

use spectrie_types::SpeculationMode;

use super::world::config;
use crate::clock::SystemClock;
use crate::config::EngineConfig;
use crate::costs::{CostCurve, CostShape};
use crate::forward::{StepResults, Verdicts};
use crate::plan::Plan;
use crate::request::Request;
use crate::scheduling::Scheduler;

/// A scheduler with an open plan of one request, whose tokens count in a circle, and its drafts.
fn drafted() -> (Scheduler, Plan) {
    let config = EngineConfig {
        speculation: SpeculationMode::Auto,
        drafting_cost_ms: Some(0.0),
        holdout_every: 0,
        ..config(50, 32, 4)
    };
    let mut scheduler = Scheduler::new(config, None, Arc::new(SystemClock::default())).unwrap();
    let costs = CostCurve::new(&[1, 101], &[10.0, 10.1], CostShape::default());
    scheduler.set_costs(costs.unwrap());
    let prompt = (0..60).map(|index| index % 6 + 1).collect();
    let mut request = Request::new(1, prompt, 40);
    request.sampling.temperature = 0.0;
    scheduler.submit(request, 0.0, 0.0);
    loop {
        let plan = scheduler.plan(0.0).unwrap().unwrap();
        if plan.request_kind == [1] && plan.num_rows() > 3 {
            return (scheduler, plan);
        }
        commit(&mut scheduler, &plan);
    }
}

/// Commits the next number of the circle at every row; the tokens emitted.
fn commit(scheduler: &mut Scheduler, plan: &Plan) -> Vec<u32> {
    let rows = plan.sample_rows.iter();
    let drawn: Vec<i32> = rows
        .map(|&row| plan.row_token[row as usize] % 6 + 1)
        .collect();
    let results = StepResults::from(Verdicts::drawn(&drawn));
    let outputs = scheduler.commit(plan.plan_id, &results, 1.0, 0.0);
    let outputs = outputs.unwrap().into_iter();
    outputs.flat_map(|output| output.token_ids).collect()
}

#[test]
fn only_the_first_token_is_taken_where_it_is_not_known_what_decides_the_others() {
    let (mut scheduler, plan) = drafted();
    assert!(commit(&mut scheduler, &plan).len() > 3);
    let (mut scheduler, plan) = drafted();
    let open = scheduler.flight.open_plan_mut().unwrap();
    open.parts[0].is_root_alone = true;
    assert_eq!(commit(&mut scheduler, &plan).len(), 1);
    // The next plan goes on from there.
    let plan = scheduler.plan(0.0).unwrap().unwrap();
    assert!(commit(&mut scheduler, &plan).len() > 3);
}
