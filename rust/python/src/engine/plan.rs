//! Plans as Python reads them.

use numpy::PyArray1;
use pyo3::prelude::*;
use spectrie_engine as core;

/// The rows of one forward; arrays are int32 [R], [Q], ... as `_core.pyi` says.
#[pyclass(frozen, get_all, name = "Plan", module = "spectrie._core")]
#[expect(
    clippy::struct_field_names,
    reason = "the names of the Python attributes"
)]
pub(super) struct Plan {
    plan_id: u64,
    is_greedy: bool,
    row_token: Py<PyArray1<i32>>,
    row_position: Py<PyArray1<i32>>,
    row_slot: Py<PyArray1<i32>>,
    row_owner: Py<PyArray1<i32>>,
    row_parent: Py<PyArray1<i32>>,
    row_ancestors: Py<PyArray1<i64>>,
    request_row_start: Py<PyArray1<i32>>,
    request_row_count: Py<PyArray1<i32>>,
    request_kv_len: Py<PyArray1<i32>>,
    request_kind: Py<PyArray1<i32>>,
    page_indptr: Py<PyArray1<i32>>,
    page_ids: Py<PyArray1<i32>>,
    sample_rows: Py<PyArray1<i32>>,
    sample_indptr: Py<PyArray1<i32>>,
    top_rows: Py<PyArray1<i32>>,
    kv_move_src: Py<PyArray1<i32>>,
    kv_move_dst: Py<PyArray1<i32>>,
}

impl Plan {
    pub(super) fn new(py: Python<'_>, plan: core::Plan) -> Self {
        let array = |values: Vec<i32>| PyArray1::from_vec(py, values).unbind();
        Self {
            plan_id: plan.plan_id,
            is_greedy: plan.is_greedy,
            row_token: array(plan.row_token),
            row_position: array(plan.row_position),
            row_slot: array(plan.row_slot),
            row_owner: array(plan.row_owner),
            row_parent: array(plan.row_parent),
            row_ancestors: PyArray1::from_vec(py, plan.row_ancestors).unbind(),
            request_row_start: array(plan.request_row_start),
            request_row_count: array(plan.request_row_count),
            request_kv_len: array(plan.request_kv_len),
            request_kind: array(plan.request_kind),
            page_indptr: array(plan.page_indptr),
            page_ids: array(plan.page_ids),
            sample_rows: array(plan.sample_rows),
            sample_indptr: array(plan.sample_indptr),
            top_rows: array(plan.top_rows),
            kv_move_src: array(plan.kv_move_src),
            kv_move_dst: array(plan.kv_move_dst),
        }
    }
}
