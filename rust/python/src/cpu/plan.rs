//! Arrays of a plan.

use numpy::{Element as NumpyElement, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use spectrie_cpu::{Batch, BatchArrays};
use spectrie_engine as core;

use crate::engine::plan::Plan;
use crate::errors::cpu_error;

/// An array of a plan, where it lies.
pub(super) enum Numbers<'a, 'py, T: NumpyElement> {
    /// In a plan of the engine.
    Engine(&'a [T]),
    /// In one that Python made.
    Python(PyReadonlyArray1<'py, T>),
}

impl<T: NumpyElement> Numbers<'_, '_, T> {
    pub(super) fn as_slice(&self) -> PyResult<&[T]> {
        match self {
            Self::Engine(values) => Ok(values),
            Self::Python(array) => Ok(array.as_slice()?),
        }
    }
}

/// The array `name` of a plan; `own` finds it in one of the engine.
pub(super) fn array<'a, 'py, T: NumpyElement>(
    plan: &'a Bound<'py, PyAny>,
    name: &str,
    own: impl FnOnce(&'a core::Plan) -> &'a [T],
) -> PyResult<Numbers<'a, 'py, T>> {
    if let Ok(plan) = plan.cast::<Plan>() {
        return Ok(Numbers::Engine(own(&plan.get().0)));
    }
    plan.getattr(name)?
        .extract()
        .map(Numbers::Python)
        .map_err(|error| PyValueError::new_err(format!("plan.{name}: {error}")))
}

/// [`array`] by the name of the field.
macro_rules! numbers {
    ($plan:expr, $name:ident) => {
        $crate::cpu::plan::array($plan, stringify!($name), |plan| &plan.$name)?
    };
}
pub(super) use numbers;

/// The checked places of a plan's rows.
pub(super) fn batch_of(
    plan: &Bound<'_, PyAny>,
    num_pages: usize,
    max_context: usize,
) -> PyResult<Batch> {
    let row_position = numbers!(plan, row_position);
    let row_slot = numbers!(plan, row_slot);
    let row_parent = numbers!(plan, row_parent);
    let row_ancestors = numbers!(plan, row_ancestors);
    let request_row_start = numbers!(plan, request_row_start);
    let request_row_count = numbers!(plan, request_row_count);
    let request_kv_len = numbers!(plan, request_kv_len);
    let request_kind = numbers!(plan, request_kind);
    let (page_indptr, page_ids) = (numbers!(plan, page_indptr), numbers!(plan, page_ids));
    let kv_move_src = numbers!(plan, kv_move_src);
    let kv_move_dst = numbers!(plan, kv_move_dst);
    let arrays = BatchArrays {
        row_position: row_position.as_slice()?,
        row_slot: row_slot.as_slice()?,
        row_parent: row_parent.as_slice()?,
        row_ancestors: row_ancestors.as_slice()?,
        request_row_start: request_row_start.as_slice()?,
        request_row_count: request_row_count.as_slice()?,
        request_kv_len: request_kv_len.as_slice()?,
        request_kind: request_kind.as_slice()?,
        page_indptr: page_indptr.as_slice()?,
        page_ids: page_ids.as_slice()?,
        kv_move_src: kv_move_src.as_slice()?,
        kv_move_dst: kv_move_dst.as_slice()?,
    };
    Batch::new(&arrays, num_pages, max_context).map_err(cpu_error)
}
