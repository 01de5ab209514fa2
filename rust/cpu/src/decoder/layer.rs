//! One decoder layer in stages, each called by all members of a team.
//!
//! A decoder in parts gathers between them: after the attended heads, after both products that end a
//! half, and after the gated activation.
#![allow(unsafe_code)] // parts of the buffers are written and read by several threads

use std::ops::Range;

use crate::decoder::mixture::Mixture;
use crate::decoder::mlp::Dense;
use crate::decoder::norm::add_norm;
use crate::decoder::shape::Widths;
use crate::decoder::split::{Split, Whole};
use crate::decoder::workspace::LayerPass;
use crate::matmul::Linear;
use crate::simd::Dtype;
use crate::threads::Member;

/// Weights of one layer.
pub struct Layer<E: Dtype> {
    /// Norm before attention, `[hidden]`.
    pub attention_norm: Vec<f32>,
    /// Product to queries, keys and values.
    pub qkv: Linear<E>,
    /// Product of the attended heads.
    pub output: Linear<E>,
    /// Norm before the MLP, `[hidden]`.
    pub mlp_norm: Vec<f32>,
    /// The MLP, after the second norm.
    pub mlp: Mlp<E>,
}

/// The MLP of a layer, after its second norm.
pub enum Mlp<E: Dtype> {
    /// One MLP for every row.
    Dense(Dense<E>),
    /// Several experts, of which each row takes a few.
    Mixture(Mixture<E>),
}

impl<E: Dtype> Layer<E> {
    /// Bytes of the weights.
    pub fn bytes(&self) -> usize {
        let norms = self.attention_norm.len() + self.mlp_norm.len();
        let mlp = match &self.mlp {
            Mlp::Dense(dense) => dense.bytes(),
            Mlp::Mixture(mixture) => mixture.bytes(),
        };
        norms * size_of::<f32>() + self.qkv.bytes() + self.output.bytes() + mlp
    }

    /// Widens `widths` to what this layer needs; mixtures of unequal sizes count by the largest.
    pub(crate) fn widen(&self, widths: &mut Widths) {
        match &self.mlp {
            Mlp::Dense(dense) => widths.gated = widths.gated.max(dense.down.in_features()),
            Mlp::Mixture(mixture) => {
                widths.expert = widths.expert.max(mixture.width());
                widths.chosen = widths.chosen.max(mixture.chosen);
                widths.experts = widths.experts.max(mixture.experts.len());
            }
        }
    }

    /// What must be equal: which size, as it is, as it must be.
    pub(crate) fn sizes(&self, qkv: usize, split: &Split) -> Vec<(&'static str, usize, usize)> {
        let (attended, hidden) = (split.attended, split.hidden);
        let mut sizes = vec![
            ("attention norm", self.attention_norm.len(), hidden.total),
            ("input of qkv", self.qkv.in_features(), hidden.total),
            ("output of qkv", self.qkv.out_features(), qkv),
            ("input of output", self.output.in_features(), attended.total),
            ("output of output", self.output.out_features(), hidden.count),
            ("mlp norm", self.mlp_norm.len(), hidden.total),
        ];
        match &self.mlp {
            Mlp::Dense(dense) => sizes.extend(dense.sizes(split.gated, hidden)),
            Mlp::Mixture(mixture) => sizes.extend(mixture.sizes(split.expert, hidden)),
        }
        sizes
    }

    /// All stages for `rows` of the batch, whose residual stream and delta begin the buffers.
    pub(crate) fn run(&self, member: &Member<'_>, pass: &LayerPass<'_, E>, rows: Range<usize>) {
        let (split, buffers, count) = (pass.split, pass.buffers, rows.len());
        self.attend(member, pass, rows);
        split.gather(member, Whole::Attended, buffers.attended, count);
        self.project(member, pass, count);
        split.gather(member, Whole::Hidden, buffers.delta, count);
        add_norm(member, buffers, count, &self.mlp_norm, pass.epsilon, true);
        match &self.mlp {
            Mlp::Dense(dense) => dense.run(member, pass, count),
            Mlp::Mixture(mixture) => mixture.run(member, pass, count),
        }
        split.gather(member, Whole::Hidden, buffers.delta, count);
    }

    /// From the residual stream and delta to the attended heads.
    fn attend(&self, member: &Member<'_>, pass: &LayerPass<'_, E>, rows: Range<usize>) {
        let (buffers, count) = (pass.buffers, rows.len());
        let norm = &self.attention_norm;
        add_norm(member, buffers, count, norm, pass.epsilon, pass.index > 0);
        // SAFETY: written by `add_norm`.
        let x = unsafe { buffers.normed.read(0, count * self.qkv.in_features()) };
        let width = self.qkv.out_features();
        // SAFETY: only this product writes its output until the barrier.
        unsafe { self.qkv.run(member, x, count, buffers.qkv, width) }
        member.barrier();
        // SAFETY: written by the product.
        let qkv = unsafe { buffers.qkv.read(0, count * width) };
        pass.attention
            .write_kv(member, pass.index, rows.clone(), qkv);
        member.barrier();
        let columns = pass.split.attended;
        pass.attention
            .attend(member, pass.index, rows, buffers.attended, columns);
        member.barrier();
    }

    /// From the attended heads to the delta of the first half.
    fn project(&self, member: &Member<'_>, pass: &LayerPass<'_, E>, rows: usize) {
        let (buffers, columns) = (pass.buffers, pass.split.hidden);
        // SAFETY: written by `attend`.
        let x = unsafe { buffers.attended.read(0, rows * self.output.in_features()) };
        let out = buffers.delta.offset(columns.first);
        // SAFETY: only this product writes its output until the barrier.
        unsafe { self.output.run(member, x, rows, out, columns.total) }
        member.barrier();
    }
}
