//! Plans of forwards on this CPU.

use std::borrow::Cow;

use numpy::{Element as NumpyElement, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use spectrie_cpu::{BatchArrays, FeatureMoves, UpkeepArrays};
use spectrie_engine as core;

use crate::engine::plan::Plan;

/// A plan where it lies if it is the engine's; the arrays of one that Python made are copied.
pub(super) fn plan_of<'a>(plan: &'a Bound<'_, PyAny>) -> PyResult<Cow<'a, core::Plan>> {
    if let Ok(plan) = plan.cast::<Plan>() {
        return Ok(Cow::Borrowed(&plan.get().0));
    }
    // One that was made for no drafter names no features.
    let features = plan.hasattr("request_feature")?;
    let moves = |name| {
        if features {
            pairs(plan, name)
        } else {
            Ok(Vec::new())
        }
    };
    let of_requests = |name| {
        if features {
            numbers(plan, name)
        } else {
            Ok(Vec::new())
        }
    };
    Ok(Cow::Owned(core::Plan {
        row_token: numbers(plan, "row_token")?,
        row_position: numbers(plan, "row_position")?,
        row_slot: numbers(plan, "row_slot")?,
        row_parent: numbers(plan, "row_parent")?,
        row_ancestors: numbers(plan, "row_ancestors")?,
        request_row_start: numbers(plan, "request_row_start")?,
        request_row_count: numbers(plan, "request_row_count")?,
        request_kv_len: numbers(plan, "request_kv_len")?,
        request_kind: numbers(plan, "request_kind")?,
        page_indptr: numbers(plan, "page_indptr")?,
        page_ids: numbers(plan, "page_ids")?,
        sample_rows: numbers(plan, "sample_rows")?,
        top_rows: numbers(plan, "top_rows")?,
        kv_move_src: numbers(plan, "kv_move_src")?,
        kv_move_dst: numbers(plan, "kv_move_dst")?,
        request_feature: of_requests("request_feature")?,
        request_first: of_requests("request_first")?,
        feature_moves: moves("feature_moves")?,
        feature_copies: moves("feature_copies")?,
        ..core::Plan::default()
    }))
}

pub(super) fn numbers<T: NumpyElement + Copy>(
    plan: &Bound<'_, PyAny>,
    name: &str,
) -> PyResult<Vec<T>> {
    let array: PyReadonlyArray1<'_, T> = plan
        .getattr(name)?
        .extract()
        .map_err(|error| PyValueError::new_err(format!("plan.{name}: {error}")))?;
    Ok(array.as_array().to_vec())
}

/// Pairs `[M, 2]`.
pub(super) fn pairs(plan: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<[i32; 2]>> {
    let array: PyReadonlyArray2<'_, i32> = plan
        .getattr(name)?
        .extract()
        .map_err(|error| PyValueError::new_err(format!("plan.{name}: {error}")))?;
    let array = array.as_array();
    if array.ncols() != 2 {
        let message = format!("plan.{name} has {} columns, expected 2", array.ncols());
        return Err(PyValueError::new_err(message));
    }
    Ok(array
        .rows()
        .into_iter()
        .map(|row| [row[0], row[1]])
        .collect())
}

/// What a plan says about features.
pub(super) fn upkeep_of(plan: &core::Plan) -> UpkeepArrays<'_> {
    UpkeepArrays {
        request_feature: &plan.request_feature,
        request_first: &plan.request_first,
        moves: FeatureMoves {
            from_rows: plan.feature_moves.as_flattened(),
            within: plan.feature_copies.as_flattened(),
        },
    }
}

/// The arrays that say where a plan's rows are.
pub(super) fn arrays_of(plan: &core::Plan) -> BatchArrays<'_> {
    BatchArrays {
        row_position: &plan.row_position,
        row_slot: &plan.row_slot,
        row_parent: &plan.row_parent,
        row_ancestors: &plan.row_ancestors,
        request_row_start: &plan.request_row_start,
        request_row_count: &plan.request_row_count,
        request_kv_len: &plan.request_kv_len,
        request_kind: &plan.request_kind,
        page_indptr: &plan.page_indptr,
        page_ids: &plan.page_ids,
        kv_move_src: &plan.kv_move_src,
        kv_move_dst: &plan.kv_move_dst,
    }
}
