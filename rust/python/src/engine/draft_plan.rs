//! What a drafter is asked, as Python reads it.

use numpy::{PyArray1, PyArray2, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use spectrie_engine as core;

use super::plan::pairs;
use crate::errors::EngineError;

/// The rows of one level; arrays are int32 as `_core.pyi` says, and copied when Python asks for them.
#[pyclass(frozen, name = "DraftPlan", module = "spectrie._core")]
pub(crate) struct DraftPlan(pub(crate) core::DraftPlan);

type Numbers<'py> = Bound<'py, PyArray1<i32>>;

#[pymethods]
impl DraftPlan {
    #[getter]
    fn drafter(&self) -> usize {
        self.0.drafter
    }

    #[getter]
    fn level(&self) -> usize {
        self.0.level
    }

    #[getter]
    fn row_index(&self) -> usize {
        self.0.row_index
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
    fn row_request<'py>(&self, py: Python<'py>) -> Numbers<'py> {
        PyArray1::from_slice(py, &self.0.row_request)
    }

    #[getter]
    fn row_parent<'py>(&self, py: Python<'py>) -> Numbers<'py> {
        PyArray1::from_slice(py, &self.0.row_parent)
    }

    #[getter]
    fn request_kv_len<'py>(&self, py: Python<'py>) -> Numbers<'py> {
        PyArray1::from_slice(py, &self.0.request_kv_len)
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
    fn page_indptr<'py>(&self, py: Python<'py>) -> Numbers<'py> {
        PyArray1::from_slice(py, &self.0.page_indptr)
    }

    #[getter]
    fn page_ids<'py>(&self, py: Python<'py>) -> Numbers<'py> {
        PyArray1::from_slice(py, &self.0.page_ids)
    }

    #[getter]
    fn scored_indptr<'py>(&self, py: Python<'py>) -> Numbers<'py> {
        PyArray1::from_slice(py, &self.0.scored_indptr)
    }

    #[getter]
    fn scored_token<'py>(&self, py: Python<'py>) -> Numbers<'py> {
        PyArray1::from_slice(py, &self.0.scored_token)
    }

    #[getter]
    fn request_fill_start<'py>(&self, py: Python<'py>) -> Numbers<'py> {
        PyArray1::from_slice(py, &self.0.request_fill_start)
    }

    #[getter]
    fn fill_indptr<'py>(&self, py: Python<'py>) -> Numbers<'py> {
        PyArray1::from_slice(py, &self.0.fill_indptr)
    }

    #[getter]
    fn fill_token<'py>(&self, py: Python<'py>) -> Numbers<'py> {
        PyArray1::from_slice(py, &self.0.fill_token)
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
    fn feature_moves<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<i32>>> {
        pairs(py, &self.0.feature_moves)
    }

    #[getter]
    fn feature_copies<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<i32>>> {
        pairs(py, &self.0.feature_copies)
    }
}

/// The answers of a level, copied from Python arrays.
pub(super) struct GivenAnswers {
    ids: Vec<i32>,
    probabilities: Vec<f32>,
    scored: Vec<f32>,
}

impl GivenAnswers {
    pub(super) fn new(
        ids: &PyReadonlyArray2<'_, i32>,
        probabilities: &PyReadonlyArray2<'_, f32>,
        scored: &PyReadonlyArray1<'_, f32>,
    ) -> Self {
        Self {
            ids: ids.as_array().iter().copied().collect(),
            probabilities: probabilities.as_array().iter().copied().collect(),
            scored: scored.as_array().iter().copied().collect(),
        }
    }

    pub(super) fn view(&self) -> core::DraftAnswers<'_> {
        core::DraftAnswers {
            ids: &self.ids,
            probabilities: &self.probabilities,
            scored: &self.scored,
        }
    }
}

/// What a drafter's tokens are credited to.
pub(super) fn source_of(number: u8) -> PyResult<spectrie_types::Source> {
    spectrie_types::Source::from_number(number).ok_or_else(|| {
        EngineError::new_err(format!("source is {number}; allowed: a number of a source"))
    })
}
