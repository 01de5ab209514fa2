//! Tensor parallelism: several processes compute the products of one decoder, each its own columns.
//!
//! Every product is split by output features, and the inputs of the next one are gathered whole. So each
//! sum is computed in one place, in the order of an undivided decoder, and has the same bits.
#![allow(unsafe_code)] // gathered buffers are handed out as addresses

use crate::buffer::{Columns, SharedSlice};
use crate::decoder::shape::Widths;
use crate::error::CpuError;
use crate::threads::Member;

/// The buffers that are gathered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whole {
    /// Attended heads, in the decoder's dtype.
    Attended,
    /// Output of the second product of each half, which is added to the residual stream; in the dtype.
    Hidden,
    /// Gated activations, in the dtype.
    Gated,
    /// Gated activations of experts, in the dtype: one row for each expert that a row takes.
    Expert,
    /// Logits, single precision.
    Logits,
}

/// Exchanges columns with the other parts.
pub trait Exchange: Send + Sync {
    /// Fills in the columns of all other parts in `rows` contiguous rows at `address`, which hold this
    /// part's columns. One thread calls it at a time; all parts call it in the same order. When it fails,
    /// it keeps the reason for its owner, and the result of the forward is undefined.
    fn gather(&self, whole: Whole, address: usize, rows: usize);
}

/// One part of a decoder: the columns that it computes.
pub struct Split {
    /// Its columns of the attended heads.
    pub attended: Columns,
    /// Its columns of the residual stream's width.
    pub hidden: Columns,
    /// Its columns of the gated activation; none where every layer is a mixture.
    pub gated: Columns,
    /// Its columns of an expert's gated activation; none where there are no mixtures.
    pub expert: Columns,
    /// Its tokens of the vocabulary.
    pub vocabulary: Columns,
    /// Exchanges columns with the other parts; `None` when there are none.
    pub exchange: Option<Box<dyn Exchange>>,
}

impl Split {
    /// The whole of a decoder.
    pub(crate) fn whole(widths: Widths, vocabulary: usize) -> Self {
        Self {
            attended: Columns::all(widths.attended),
            hidden: Columns::all(widths.hidden),
            gated: Columns::all(widths.gated),
            expert: Columns::all(widths.expert),
            vocabulary: Columns::all(vocabulary),
            exchange: None,
        }
    }

    /// Checks that the columns are those of a decoder of these widths.
    pub(crate) fn check(&self, widths: Widths) -> Result<(), CpuError> {
        let mut all = vec![
            ("columns of heads", self.attended, widths.attended),
            ("columns of the stream", self.hidden, widths.hidden),
            ("tokens", self.vocabulary, self.vocabulary.total),
        ];
        if widths.gated > 0 {
            all.push(("columns of the MLP", self.gated, widths.gated));
        }
        if widths.expert > 0 {
            all.push(("columns of an expert", self.expert, widths.expert));
        }
        for (what, columns, total) in all {
            if !columns.fit() || columns.total != total {
                return Err(CpuError::Length {
                    what,
                    given: columns.total,
                    expected: total,
                });
            }
        }
        Ok(())
    }

    /// Fills in the columns of the other parts. All members call it after a barrier, and it ends with
    /// one.
    pub(crate) fn gather<T: Copy>(
        &self,
        member: &Member<'_>,
        whole: Whole,
        buffer: SharedSlice<'_, T>,
        rows: usize,
    ) {
        let Some(exchange) = &self.exchange else {
            return;
        };
        if member.index() == 0 {
            let columns = match whole {
                Whole::Attended => self.attended,
                Whole::Hidden => self.hidden,
                Whole::Gated => self.gated,
                Whole::Expert => self.expert,
                Whole::Logits => self.vocabulary,
            };
            // SAFETY: between two barriers, and only this member goes on.
            let part = unsafe { buffer.part(0, rows * columns.total) };
            exchange.gather(whole, part.as_mut_ptr() as usize, rows);
        }
        member.barrier();
    }
}
