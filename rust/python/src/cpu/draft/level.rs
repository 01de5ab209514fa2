//! One level of drafts.

use std::borrow::Cow;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use spectrie_cpu::{DraftArrays, FeatureMoves};
use spectrie_engine as core;

use crate::cpu::plan::{numbers, pairs};
use crate::engine::draft_plan::DraftPlan;

/// A level where it lies if it is the engine's; the arrays of one that Python made are copied.
pub(crate) fn level_of<'a>(plan: &'a Bound<'_, PyAny>) -> PyResult<Cow<'a, core::DraftPlan>> {
    if let Ok(plan) = plan.cast::<DraftPlan>() {
        return Ok(Cow::Borrowed(&plan.get().0));
    }
    Ok(Cow::Owned(core::DraftPlan {
        drafter: count(plan, "drafter")?,
        level: count(plan, "level")?,
        row_index: count(plan, "row_index")?,
        row_token: numbers(plan, "row_token")?,
        row_position: numbers(plan, "row_position")?,
        row_request: numbers(plan, "row_request")?,
        row_parent: numbers(plan, "row_parent")?,
        request_kv_len: numbers(plan, "request_kv_len")?,
        request_feature: numbers(plan, "request_feature")?,
        request_first: numbers(plan, "request_first")?,
        page_indptr: numbers(plan, "page_indptr")?,
        page_ids: numbers(plan, "page_ids")?,
        scored_indptr: numbers(plan, "scored_indptr")?,
        scored_token: numbers(plan, "scored_token")?,
        request_fill_start: numbers(plan, "request_fill_start")?,
        fill_indptr: numbers(plan, "fill_indptr")?,
        fill_token: numbers(plan, "fill_token")?,
        kv_move_src: numbers(plan, "kv_move_src")?,
        kv_move_dst: numbers(plan, "kv_move_dst")?,
        feature_moves: pairs(plan, "feature_moves")?,
        feature_copies: pairs(plan, "feature_copies")?,
    }))
}

/// A number of a level from Python: within `i32`, and not negative.
fn count(plan: &Bound<'_, PyAny>, name: &str) -> PyResult<usize> {
    let given: i32 = plan.getattr(name)?.extract()?;
    let wrong = || PyValueError::new_err(format!("plan.{name} is {given}; allowed: 0 or more"));
    usize::try_from(given).map_err(|_| wrong())
}

/// The arrays of a level.
pub(crate) fn arrays_of_level(plan: &core::DraftPlan) -> DraftArrays<'_> {
    DraftArrays {
        level: plan.level as i32,
        row_token: &plan.row_token,
        row_position: &plan.row_position,
        row_request: &plan.row_request,
        row_parent: &plan.row_parent,
        row_index: plan.row_index as i32,
        request_kv_len: &plan.request_kv_len,
        request_feature: &plan.request_feature,
        request_first: &plan.request_first,
        page_indptr: &plan.page_indptr,
        page_ids: &plan.page_ids,
        scored_indptr: &plan.scored_indptr,
        scored_token: &plan.scored_token,
        request_fill_start: &plan.request_fill_start,
        fill_indptr: &plan.fill_indptr,
        fill_token: &plan.fill_token,
        kv_move_src: &plan.kv_move_src,
        kv_move_dst: &plan.kv_move_dst,
        moves: FeatureMoves {
            from_rows: plan.feature_moves.as_flattened(),
            within: plan.feature_copies.as_flattened(),
        },
    }
}
