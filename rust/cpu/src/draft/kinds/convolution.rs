//! Convolutions over the rows of a block, whose kernels depend on the rows (DFLASH 2).
//!
//! Each row takes itself and the rows before it in its block. A weight of a kernel is one that was learned for
//! its column, plus one that a product makes of the row for a group of neighbouring columns.
#![allow(unsafe_code)] // parts of the buffers are written and read by several threads

use crate::buffer::SharedSlice;
use crate::draft::drafter::Run;
use crate::draft::kinds::stages::Size;
use crate::matmul::Linear;
use crate::simd::Dtype;
use crate::threads::{Member, share_out};

/// The convolutions before and behind one half of a layer.
pub struct Convolution<E: Dtype> {
    /// `[2, taps, hidden]`: of what the half takes, then of what it gives; tap 0 is the row itself.
    pub base: Vec<f32>,
    /// Product to `[2, taps, groups]` of the same.
    pub kernel: Linear<E>,
    /// Rows that one takes, itself included.
    pub taps: usize,
}

/// Which of the two.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Side {
    Before,
    Behind,
}

/// Blocks in a buffer: of each `stride` rows the last `block`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Blocks {
    pub(crate) count: usize,
    pub(crate) stride: usize,
    pub(crate) block: usize,
}

impl<E: Dtype> Convolution<E> {
    /// What must be equal.
    pub(crate) fn sizes(&self, hidden: usize) -> [Size; 3] {
        let groups = self.groups();
        [
            (
                "input of a convolution's kernel",
                self.kernel.in_features(),
                hidden,
            ),
            (
                "weights of a convolution",
                self.base.len(),
                2 * self.taps * hidden,
            ),
            (
                "groups of a convolution",
                groups * (hidden / groups.max(1)),
                hidden,
            ),
        ]
    }

    fn groups(&self) -> usize {
        self.kernel.out_features() / (2 * self.taps.max(1))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.kernel.bytes() + size_of_val(self.base.as_slice())
    }

    /// Width of the kernels of a row.
    pub(crate) fn width(&self) -> usize {
        self.kernel.out_features()
    }

    /// Makes the kernels of `x: [rows, hidden]`, which then goes through the first convolution. Ends with a
    /// barrier.
    pub(crate) fn enter(&self, member: &Member<'_>, run: &Run<'_, E>, blocks: Blocks) {
        let hidden = self.kernel.in_features();
        let rows = blocks.count * blocks.stride;
        let x = run.space.buffers.normed;
        // SAFETY: the rows were written before a barrier; only this product writes kernels until the next.
        unsafe {
            let rows_of_x = x.read(0, rows * hidden);
            let width = self.width();
            self.kernel
                .run(member, rows_of_x, rows, run.space.kernels, width);
        }
        member.barrier();
        self.apply(member, run, blocks, Side::Before, x);
    }

    /// Puts `x: [rows, hidden]` through one of the two, by the kernels that `enter` made. Ends with a barrier.
    pub(crate) fn apply(
        &self,
        member: &Member<'_>,
        run: &Run<'_, E>,
        blocks: Blocks,
        side: Side,
        x: SharedSlice<'_, E>,
    ) {
        let Blocks {
            count,
            stride,
            block,
        } = blocks;
        let (hidden, groups, width) = (self.kernel.in_features(), self.groups(), self.width());
        let size = hidden / groups;
        let first = match side {
            Side::Before => 0,
            Side::Behind => self.taps,
        };
        let mut total = vec![0.0f32; size];
        share_out(member, count * groups, 4, |item| {
            let (number, group) = (item / groups, item % groups);
            let start = number * stride + stride - block;
            let columns = group * size;
            // From the last row on, so that rows are read before they are written.
            for row in (0..block).rev() {
                // SAFETY: kernels were written before the barrier; each group of a block is taken once, and a
                // row's own part ends before another one's is read.
                unsafe {
                    let kernel = run.space.kernels.read((start + row) * width, width);
                    total.fill(0.0);
                    for tap in 0..self.taps.min(row + 1) {
                        let dynamic = kernel[(first + tap) * groups + group];
                        let base = &self.base[(first + tap) * hidden + columns..][..size];
                        let from = x.read((start + row - tap) * hidden + columns, size);
                        for ((total, base), from) in total.iter_mut().zip(base).zip(from) {
                            *total += (base + dynamic) * from.to_f32();
                        }
                    }
                    let to = x.part((start + row) * hidden + columns, size);
                    for (to, total) in to.iter_mut().zip(&total) {
                        *to = E::from_f32(*total);
                    }
                }
            }
        });
        member.barrier();
    }
}
