//! A device that draws a token at every sampled row.

use spectrie_engine::{BANNED, Plan};

use super::model::FakeModel;
use super::reference;
use super::scenario::Visit;

/// The token drawn at each sampled row, at nodes that no answer visits too.
pub(crate) fn drawn_by_device(model: &FakeModel, plan: &Plan, visits: &[Visit]) -> Vec<i32> {
    let draw = |&row: &i32| {
        let handle = plan.request_handle[plan.row_owner[row as usize] as usize];
        let visit = visits.iter().find(|visit| visit.request.handle == handle);
        let visit = visit.unwrap();
        let tokens = model.visible(plan, row as usize);
        let token = reference::drawn_after(&visit.request, visit.expression.as_ref(), &tokens);
        token.map_or(BANNED, |token| token as i32)
    };
    plan.sample_rows.iter().map(draw).collect()
}
