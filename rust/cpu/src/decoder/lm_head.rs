//! The LM head: output rows through the last norm and product, and their likeliest tokens.
#![allow(unsafe_code)] // parts of the buffers are written and read by several threads

use spectrie_simd::Isa;

use crate::buffer::SharedSlice;
use crate::decoder::norm::add_norm_row;
use crate::decoder::output_rows::OutputRows;
use crate::decoder::split::{Split, Whole};
use crate::decoder::top_k::{TOP_K, TopKRow};
use crate::decoder::workspace::Buffers;
use crate::matmul::Linear;
use crate::simd::{Dtype, launch};
use crate::threads::{Member, share_out};

/// Rows that go through the head together; as many rows of logits are needed besides those kept.
pub(crate) const HEAD_ROWS: usize = 64;

/// What turns the residual stream of a block into logits; called by all members of a team.
pub(crate) struct LmHead<'a, E: Dtype> {
    pub(crate) final_norm: &'a [f32],
    pub(crate) head: &'a Linear<E>,
    pub(crate) epsilon: f32,
    pub(crate) with_delta: bool,
    pub(crate) split: &'a Split,
    /// `[kept rows + HEAD_ROWS, vocabulary]`.
    pub(crate) logits: SharedSlice<'a, f32>,
    /// `[top rows, TOP_K]`.
    pub(crate) ids: SharedSlice<'a, i32>,
    /// `[top rows, TOP_K]`.
    pub(crate) probabilities: SharedSlice<'a, f32>,
}

impl<E: Dtype> LmHead<'_, E> {
    /// Computes the logits of the output rows of the block in `buffers`; ends with a barrier.
    pub(crate) fn run(&self, member: &Member<'_>, buffers: Buffers<'_, E>, output: &OutputRows) {
        let columns = self.split.vocabulary;
        let width = columns.total;
        for (chunk, rows) in output.rows.chunks(HEAD_ROWS).enumerate() {
            share_out(member, rows.len(), 4, |index| {
                let row = rows[index].row;
                let (weight, epsilon) = (self.final_norm, self.epsilon);
                add_norm_row(buffers, row, index, weight, epsilon, self.with_delta);
            });
            member.barrier();
            let kept = (chunk * HEAD_ROWS).min(output.num_kept);
            let logits = self.logits.offset((output.first_logits + kept) * width);
            // SAFETY: written before the barrier.
            let x = unsafe { buffers.normed.read(0, rows.len() * self.head.in_features()) };
            // SAFETY: only this product writes its output until the barrier.
            unsafe {
                self.head
                    .run(member, x, rows.len(), logits.offset(columns.first), width);
            }
            member.barrier();
            self.split.gather(member, Whole::Logits, logits, rows.len());
            share_out(member, rows.len(), 4, |index| {
                let Some(top) = rows[index].top else {
                    return;
                };
                // SAFETY: the logits were written before the barrier, and each top row is one row.
                let kernel = unsafe {
                    TopKRow {
                        logits: logits.read(index * width, width),
                        ids: self.ids.part(top * TOP_K, TOP_K),
                        probabilities: self.probabilities.part(top * TOP_K, TOP_K),
                    }
                };
                launch(Isa::detect(), kernel);
            });
            member.barrier();
        }
    }
}
