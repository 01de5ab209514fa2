//! Logits that Python hands over by address, and likeliest tokens.
// The rows belong to a tensor whose memory only Python knows; copying them would cost as much as
// drawing from them.
#![allow(unsafe_code)]

use numpy::PyReadonlyArray2;
use pyo3::PyResult;
use spectrie_engine::{EngineError, LogitRows, TopTokens};

/// Rows of 32-bit logits at an address.
#[derive(Debug, Clone, Copy)]
pub(super) struct LogitsAddress {
    address: usize,
    num_rows: usize,
    row_stride: usize,
    vocabulary_size: usize,
}

impl LogitsAddress {
    /// Checks everything about the address that can be checked.
    pub(super) fn new(
        address: usize,
        num_rows: usize,
        row_stride: usize,
        vocabulary_size: usize,
    ) -> Result<Self, EngineError> {
        let wrong = |what, given, allowed: String| {
            Err(EngineError::Logits {
                what,
                given,
                allowed,
            })
        };
        if num_rows > 0 && address == 0 {
            return wrong(
                "logits pointer",
                address,
                "a pointer that is not null".into(),
            );
        }
        if !address.is_multiple_of(align_of::<f32>()) {
            return wrong(
                "logits pointer",
                address,
                "an address aligned to 4 bytes".into(),
            );
        }
        if num_rows > 0 && row_stride < vocabulary_size {
            return wrong(
                "row stride",
                row_stride,
                format!("{vocabulary_size} or more"),
            );
        }
        let most = isize::MAX as usize / size_of::<f32>();
        if num_rows
            .checked_mul(row_stride)
            .is_none_or(|values| values > most)
        {
            return wrong(
                "number of rows",
                num_rows,
                format!("at most {most} values in all"),
            );
        }
        Ok(Self {
            address,
            num_rows,
            row_stride,
            vocabulary_size,
        })
    }

    /// The values from the first of the first row to the last of the last row.
    ///
    /// The caller of `Engine.commit_logits` owns `num_rows` rows at the address and leaves them
    /// unchanged until it returns.
    pub(super) fn values<'a>(self) -> &'a [f32] {
        if self.num_rows == 0 {
            return &[];
        }
        let len = (self.num_rows - 1) * self.row_stride + self.vocabulary_size;
        debug_assert!(self.address != 0 && self.address.is_multiple_of(align_of::<f32>()));
        // SAFETY: not null, aligned and of a valid length by `new`; that the memory holds that many
        // initialised values and outlives the call without writes is the documented duty of the
        // caller of `commit_logits`.
        unsafe { std::slice::from_raw_parts(self.address as *const f32, len) }
    }
}

/// The rows of an array, read where they lie; none without one.
pub(super) fn rows_of<'a>(array: Option<&'a PyReadonlyArray2<'_, f32>>) -> PyResult<LogitRows<'a>> {
    let Some(array) = array else {
        return Ok(LogitRows::default());
    };
    let (num_rows, row_stride) = array.as_array().dim();
    Ok(LogitRows {
        values: array.as_slice()?,
        num_rows,
        row_stride,
    })
}

/// The model's likeliest tokens, copied from Python arrays.
pub(super) struct Top {
    ids: Vec<i32>,
    probabilities: Vec<f32>,
}

impl Top {
    pub(super) fn new(
        ids: Option<PyReadonlyArray2<'_, i32>>,
        probabilities: Option<PyReadonlyArray2<'_, f32>>,
    ) -> Option<Self> {
        Some(Self {
            ids: ids?.as_array().iter().copied().collect(),
            probabilities: probabilities?.as_array().iter().copied().collect(),
        })
    }

    pub(super) fn tokens(&self) -> TopTokens<'_> {
        TopTokens {
            ids: &self.ids,
            probabilities: &self.probabilities,
        }
    }
}
