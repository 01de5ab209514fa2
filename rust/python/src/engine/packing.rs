//! Steps packed into memory that Python hands over by address.
// The memory is pinned, so that a device copies it while Python goes on; only Python can make it.
#![allow(unsafe_code)]

use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use spectrie_engine as core;
use spectrie_engine::EngineError;
use spectrie_types::{PackedSection, PackedWork};

use crate::errors::{PackingError, engine_error};

/// The model that a device computes.
#[pyclass(frozen, name = "DeviceShape", module = "spectrie._core")]
pub(crate) struct DeviceShape(pub(super) core::DeviceShape);

#[pymethods]
impl DeviceShape {
    #[new]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "converted from a Python list"
    )]
    fn new(
        group: usize,
        kv_heads: usize,
        windows: Vec<Option<usize>>,
        vocabulary: usize,
    ) -> PyResult<Self> {
        core::DeviceShape::new(group, kv_heads, &windows, vocabulary)
            .map(Self)
            .map_err(|error| PyValueError::new_err(error.to_string()))
    }

    #[getter]
    fn group(&self) -> usize {
        self.0.group()
    }

    #[getter]
    fn kv_heads(&self) -> usize {
        self.0.kv_heads()
    }

    #[getter]
    fn windows(&self) -> Vec<Option<usize>> {
        self.0.windows().to_vec()
    }

    #[getter]
    fn vocabulary(&self) -> usize {
        self.0.vocabulary_size()
    }
}

/// A step that was packed.
#[pyclass(frozen, name = "PackedStep", module = "spectrie._core")]
pub(crate) struct PackedStep(pub(super) core::PackedStep);

#[pymethods]
impl PackedStep {
    #[getter]
    fn words(&self) -> usize {
        self.0.num_words
    }

    #[getter]
    fn rows(&self) -> usize {
        self.0.num_rows
    }

    #[getter]
    fn samples(&self) -> usize {
        self.0.num_samples
    }

    #[getter]
    fn tops(&self) -> usize {
        self.0.num_tops
    }

    #[getter]
    fn moves(&self) -> usize {
        self.0.num_moves
    }

    #[getter]
    fn has_prompts(&self) -> bool {
        self.0.has_prompts
    }

    #[getter]
    fn is_drawn(&self) -> bool {
        self.0.is_drawn
    }

    #[getter]
    fn cuts(&self) -> u8 {
        self.0.cuts
    }

    #[getter]
    fn has_lists(&self) -> bool {
        self.0.has_lists
    }

    #[getter]
    fn most_splits(&self) -> usize {
        self.0.most_splits
    }

    fn section(&self, section: usize) -> PyResult<(usize, usize)> {
        let section = PackedSection::ALL.get(section);
        let section = section.ok_or_else(|| PyIndexError::new_err("no such section"))?;
        Ok(self.0.section(*section))
    }

    fn work(&self, window_index: usize, list: usize) -> PyResult<(usize, usize)> {
        let list = PackedWork::ALL.get(list);
        let found = list.and_then(|list| self.0.work(window_index, *list));
        found.ok_or_else(|| PyIndexError::new_err("no such window or list"))
    }
}

/// Memory for a packed step, at an address.
#[derive(Debug, Clone, Copy)]
pub(super) struct PackedAddress {
    address: usize,
    capacity_words: usize,
}

impl PackedAddress {
    /// Checks everything about the address that can be checked.
    pub(super) fn new(address: usize, capacity_words: usize) -> PyResult<Self> {
        if capacity_words > 0 && (address == 0 || !address.is_multiple_of(align_of::<i32>())) {
            return Err(PyValueError::new_err(format!(
                "address is {address}; allowed: one of memory, aligned to 4 bytes"
            )));
        }
        let most = isize::MAX as usize / size_of::<i32>();
        if capacity_words > most {
            return Err(PyValueError::new_err(format!(
                "capacity_words is {capacity_words}; allowed: 0 to {most}"
            )));
        }
        Ok(Self {
            address,
            capacity_words,
        })
    }

    /// The memory, which the caller of `Engine.pack` owns and neither reads nor writes until it returns.
    pub(super) fn words<'a>(self) -> &'a mut [i32] {
        if self.capacity_words == 0 {
            return &mut [];
        }
        debug_assert!(self.address != 0 && self.address.is_multiple_of(align_of::<i32>()));
        // SAFETY: not null, aligned and of a valid length by `new`; that there is memory of that length
        // which nothing else reads or writes during the call is the documented duty of the caller of
        // `pack`. Any bits are an i32.
        unsafe { std::slice::from_raw_parts_mut(self.address as *mut i32, self.capacity_words) }
    }
}

/// The exception of a call that could not pack; one for want of room says how many words it takes.
pub(super) fn packing_error(py: Python<'_>, error: &EngineError) -> PyErr {
    let EngineError::PackedTooLong { needed_words, .. } = error else {
        return engine_error(error);
    };
    let raised = PackingError::new_err(error.to_string());
    match raised.value(py).setattr("needed_words", needed_words) {
        Ok(()) => raised,
        Err(other) => other,
    }
}
