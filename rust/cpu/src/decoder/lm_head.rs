//! The end of a forward: wanted rows through the last norm and the head, and their likeliest tokens.
#![allow(unsafe_code)] // parts of the buffers are written and read by several threads

use crate::buffer::Shared;
use crate::decoder::layer::add_norm_row;
use crate::decoder::output_rows::Wanted;
use crate::decoder::split::{Split, Whole};
use crate::decoder::top_k::{Row, TOP_K};
use crate::decoder::workspace::Buffers;
use crate::matmul::Linear;
use crate::simd::{Element, Level, launch};
use crate::threads::{Member, share_out};

/// Rows that go through the head together; as many rows of logits are needed besides those kept.
pub(crate) const HEAD_ROWS: usize = 64;

/// What reads the residual stream of a block; called by all members of a team.
pub(crate) struct Reading<'a, E: Element> {
    pub(crate) final_norm: &'a [f32],
    pub(crate) head: &'a Linear<E>,
    pub(crate) epsilon: f32,
    pub(crate) with_delta: bool,
    pub(crate) split: &'a Split,
    /// `[kept rows + HEAD_ROWS, vocabulary]`.
    pub(crate) logits: Shared<'a, f32>,
    /// `[top rows, TOP_K]`.
    pub(crate) ids: Shared<'a, i32>,
    /// `[top rows, TOP_K]`.
    pub(crate) probabilities: Shared<'a, f32>,
}

impl<E: Element> Reading<'_, E> {
    /// Reads the wanted rows of the block in `buffers`; ends with a barrier.
    pub(crate) fn run(&self, member: &Member<'_>, buffers: Buffers<'_, E>, wanted: &Wanted) {
        let columns = self.split.vocabulary;
        let width = columns.total;
        for (chunk, rows) in wanted.rows.chunks(HEAD_ROWS).enumerate() {
            share_out(member, rows.len(), 4, |index| {
                let row = rows[index].row;
                let (weight, epsilon) = (self.final_norm, self.epsilon);
                add_norm_row(buffers, row, index, weight, epsilon, self.with_delta);
            });
            member.barrier();
            let kept = (chunk * HEAD_ROWS).min(wanted.num_kept);
            let logits = self.logits.behind((wanted.first_logits + kept) * width);
            // SAFETY: written before the barrier.
            let x = unsafe { buffers.normed.read(0, rows.len() * self.head.in_features()) };
            // SAFETY: only this product writes its output until the barrier.
            unsafe {
                self.head
                    .run(member, x, rows.len(), logits.behind(columns.first), width);
            }
            member.barrier();
            self.split.gather(member, Whole::Logits, logits, rows.len());
            share_out(member, rows.len(), 4, |index| {
                let Some(top) = rows[index].top else {
                    return;
                };
                // SAFETY: the logits were written before the barrier, and each top row is one row.
                let kernel = unsafe {
                    Row {
                        logits: logits.read(index * width, width),
                        ids: self.ids.part(top * TOP_K, TOP_K),
                        probabilities: self.probabilities.part(top * TOP_K, TOP_K),
                    }
                };
                launch(Level::detect(), kernel);
            });
            member.barrier();
        }
    }
}
