//! A gated MLP.
#![allow(unsafe_code)] // parts of the buffers are written and read by several threads

use spectrie_simd::Isa;

use crate::buffer::Columns;
use crate::decoder::activation::Gated;
use crate::decoder::split::Whole;
use crate::decoder::workspace::{Buffers, LayerPass};
use crate::matmul::Linear;
use crate::simd::{Dtype, LANES, launch};
use crate::threads::{Member, share_out};

/// Elements of an activation that one member takes at a time.
const GATED_PART: usize = 32 * LANES;

/// A gated MLP: `down(silu(gate(x)) * up(x))`.
pub struct Dense<E: Dtype> {
    /// Product to the gate, then the up projection.
    pub gate_up: Linear<E>,
    /// Product back to the residual stream.
    pub down: Linear<E>,
}

impl<E: Dtype> Dense<E> {
    /// Bytes of the weights.
    pub(crate) fn bytes(&self) -> usize {
        self.gate_up.bytes() + self.down.bytes()
    }

    /// What must be equal: which size, as it is, as it must be.
    pub(crate) fn sizes(
        &self,
        gated: Columns,
        hidden: Columns,
    ) -> [(&'static str, usize, usize); 4] {
        let Self { gate_up, down } = self;
        [
            ("input of gate_up", gate_up.in_features(), hidden.total),
            ("output of gate_up", gate_up.out_features(), 2 * gated.count),
            ("input of down", down.in_features(), gated.total),
            ("output of down", down.out_features(), hidden.count),
        ]
    }

    /// From the normed rows to this part's columns of the delta; ends with a barrier.
    pub(crate) fn run(&self, member: &Member<'_>, pass: &LayerPass<'_, E>, rows: usize) {
        let (buffers, split) = (pass.buffers, pass.split);
        // SAFETY: `normed` was written before the barrier.
        let x = unsafe { buffers.normed.read(0, rows * self.gate_up.in_features()) };
        let width = self.gate_up.out_features();
        // SAFETY: only this product writes its output until the barrier.
        unsafe { self.gate_up.run(member, x, rows, buffers.gate_up, width) }
        member.barrier();
        gate_rows(member, buffers, rows, split.gated);
        member.barrier();
        split.gather(member, Whole::Gated, buffers.gated, rows);
        // SAFETY: written before the barrier.
        let x = unsafe { buffers.gated.read(0, rows * self.down.in_features()) };
        let out = buffers.delta.offset(split.hidden.first);
        // SAFETY: only this product writes its output until the barrier.
        unsafe { self.down.run(member, x, rows, out, split.hidden.total) }
        member.barrier();
    }
}

/// `silu(gate) * up` of rows of `gate_up` into `columns` of the rows of `gated`; without a barrier at
/// the end.
pub(crate) fn gate_rows<E: Dtype>(
    member: &Member<'_>,
    buffers: Buffers<'_, E>,
    rows: usize,
    columns: Columns,
) {
    let width = columns.count;
    let parts = width.div_ceil(GATED_PART);
    share_out(member, rows * parts, 4, |item| {
        let (row, first) = (item / parts, item % parts * GATED_PART);
        let len = GATED_PART.min(width - first);
        let start = 2 * row * width + first;
        let to = row * columns.total + columns.first + first;
        // SAFETY: each part is taken once, and `gate_up` was written before the barrier.
        let kernel = unsafe {
            Gated {
                gate: buffers.gate_up.read(start, len),
                up: buffers.gate_up.read(start + width, len),
                out: buffers.gated.part(to, len),
            }
        };
        launch(Isa::detect(), kernel);
    });
}
