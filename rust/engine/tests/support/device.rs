//! A device that draws a token at every sampled row.

use spectrie_engine::{BANNED, Engine, Plan};

use super::expression::{Expression, TOKENS};
use super::model::FakeModel;
use super::packed::Packed;
use super::reference;
use super::scenario::Visit;

/// The token drawn at each sampled row from what the engine packed: the one of decoding alone there,
/// also at nodes that the answer does not come to.
pub(crate) fn drawn_by_device(
    engine: &Engine,
    model: &FakeModel,
    plan: &Plan,
    values: &[f32],
    visits: &[Visit],
) -> Vec<i32> {
    let drawn = Packed::new(engine, plan).drawn(values);
    for (sample, (&row, &token)) in plan.sample_rows.iter().zip(&drawn).enumerate() {
        if plan.logit_samples.contains(&(sample as i32)) {
            continue;
        }
        let handle = plan.request_handle[plan.row_owner[row as usize] as usize];
        let visit = visits.iter().find(|visit| visit.request.handle == handle);
        let visit = visit.unwrap();
        let tokens = model.visible(plan, row as usize);
        let (request, expression) = (&visit.request, visit.expression.as_ref());
        let output = &tokens[request.prompt_ids.len()..];
        if expression.is_none_or(|expression| may_come_to(expression, output)) {
            let expected = reference::drawn_after(request, expression, &tokens);
            assert_eq!(token, expected.map_or(BANNED, |token| token as i32));
        }
    }
    drawn
}

/// Whether an answer can begin with `output` and go on.
fn may_come_to(expression: &Expression, output: &[u32]) -> bool {
    let mut place = expression.clone();
    for &token in output {
        if token == 0 || !place.goes_on() || !place.allows(token) {
            return false;
        }
        place = place.after(TOKENS[token as usize].as_bytes());
    }
    place.goes_on()
}
