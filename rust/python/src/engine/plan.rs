//! Plans as Python reads them.

use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use spectrie_engine as core;

/// The rows of one forward; arrays are int32 [R], [Q], ... as `_core.pyi` says.
///
/// They are copied when Python asks for them: the forward on a CPU reads them where they are, and
/// making seventeen arrays would lie between two forwards.
#[pyclass(frozen, name = "Plan", module = "spectrie._core")]
pub(crate) struct Plan(pub(crate) core::Plan);

/// Pairs as an array of two columns.
pub(super) fn pairs<'py>(
    py: Python<'py>,
    pairs: &[[i32; 2]],
) -> PyResult<Bound<'py, PyArray2<i32>>> {
    PyArray1::from_slice(py, pairs.as_flattened()).reshape([pairs.len(), 2])
}

type Numbers<'py, T = i32> = Bound<'py, PyArray1<T>>;

#[pymethods]
impl Plan {
    #[getter]
    fn plan_id(&self) -> u64 {
        self.0.plan_id
    }

    #[getter]
    fn is_greedy(&self) -> bool {
        self.0.is_greedy
    }

    #[getter]
    fn is_drawable(&self) -> bool {
        self.0.is_drawable()
    }

    #[getter]
    fn logit_samples<'py>(&self, py: Python<'py>) -> Numbers<'py> {
        PyArray1::from_slice(py, &self.0.logit_samples)
    }

    #[getter]
    fn request_handle<'py>(&self, py: Python<'py>) -> Numbers<'py, u64> {
        PyArray1::from_slice(py, &self.0.request_handle)
    }

    #[getter]
    fn row_token<'py>(&self, py: Python<'py>) -> Numbers<'py> {
        PyArray1::from_slice(py, &self.0.row_token)
    }

    #[getter]
    fn row_position<'py>(&self, py: Python<'py>) -> Numbers<'py> {
        PyArray1::from_slice(py, &self.0.row_position)
    }

    #[getter]
    fn row_slot<'py>(&self, py: Python<'py>) -> Numbers<'py> {
        PyArray1::from_slice(py, &self.0.row_slot)
    }

    #[getter]
    fn row_owner<'py>(&self, py: Python<'py>) -> Numbers<'py> {
        PyArray1::from_slice(py, &self.0.row_owner)
    }

    #[getter]
    fn row_parent<'py>(&self, py: Python<'py>) -> Numbers<'py> {
        PyArray1::from_slice(py, &self.0.row_parent)
    }

    #[getter]
    fn row_ancestors<'py>(&self, py: Python<'py>) -> Numbers<'py, i64> {
        PyArray1::from_slice(py, &self.0.row_ancestors)
    }

    #[getter]
    fn request_row_start<'py>(&self, py: Python<'py>) -> Numbers<'py> {
        PyArray1::from_slice(py, &self.0.request_row_start)
    }

    #[getter]
    fn request_row_count<'py>(&self, py: Python<'py>) -> Numbers<'py> {
        PyArray1::from_slice(py, &self.0.request_row_count)
    }

    #[getter]
    fn request_kv_len<'py>(&self, py: Python<'py>) -> Numbers<'py> {
        PyArray1::from_slice(py, &self.0.request_kv_len)
    }

    #[getter]
    fn request_kind<'py>(&self, py: Python<'py>) -> Numbers<'py> {
        PyArray1::from_slice(py, &self.0.request_kind)
    }

    #[getter]
    fn page_indptr<'py>(&self, py: Python<'py>) -> Numbers<'py> {
        PyArray1::from_slice(py, &self.0.page_indptr)
    }

    #[getter]
    fn page_ids<'py>(&self, py: Python<'py>) -> Numbers<'py> {
        PyArray1::from_slice(py, &self.0.page_ids)
    }

    #[getter]
    fn sample_rows<'py>(&self, py: Python<'py>) -> Numbers<'py> {
        PyArray1::from_slice(py, &self.0.sample_rows)
    }

    #[getter]
    fn sample_indptr<'py>(&self, py: Python<'py>) -> Numbers<'py> {
        PyArray1::from_slice(py, &self.0.sample_indptr)
    }

    #[getter]
    fn top_rows<'py>(&self, py: Python<'py>) -> Numbers<'py> {
        PyArray1::from_slice(py, &self.0.top_rows)
    }

    #[getter]
    fn kv_move_src<'py>(&self, py: Python<'py>) -> Numbers<'py> {
        PyArray1::from_slice(py, &self.0.kv_move_src)
    }

    #[getter]
    fn kv_move_dst<'py>(&self, py: Python<'py>) -> Numbers<'py> {
        PyArray1::from_slice(py, &self.0.kv_move_dst)
    }

    #[getter]
    fn request_feature<'py>(&self, py: Python<'py>) -> Numbers<'py> {
        PyArray1::from_slice(py, &self.0.request_feature)
    }

    #[getter]
    fn request_first<'py>(&self, py: Python<'py>) -> Numbers<'py> {
        PyArray1::from_slice(py, &self.0.request_first)
    }

    #[getter]
    fn feature_moves<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<i32>>> {
        pairs(py, &self.0.feature_moves)
    }

    #[getter]
    fn feature_copies<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<i32>>> {
        pairs(py, &self.0.feature_copies)
    }
}

#[pyfunction]
pub(super) fn choice_seed(seed: u64, choice: u32) -> u64 {
    spectrie_types::seed::choice_seed(seed, choice)
}
