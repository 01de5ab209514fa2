//! One decoder layer in stages, each called by all members of a team.
//!
//! A decoder in parts gathers between them: after the attended heads, after both products that end a
//! half, and after the gated activation.
#![allow(unsafe_code)] // parts of the buffers are written and read by several threads

use std::ops::Range;

use crate::decoder::mixture::Mixture;
use crate::decoder::mlp::Dense;
use crate::decoder::norm::{add, add_norm};
use crate::decoder::shape::Widths;
use crate::decoder::split::{Split, Whole};
use crate::decoder::workspace::LayerPass;
use crate::matmul::Linear;
use crate::simd::Dtype;
use crate::threads::Member;

/// Weights of one layer.
pub struct Layer<E: Dtype> {
    /// Norm before attention, `[hidden]`; `None` = the stream as it is, in the first layer of some drafters.
    pub attention_norm: Option<Vec<f32>>,
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
        let norms = self.attention_norm.as_ref().map_or(0, Vec::len) + self.mlp_norm.len();
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
    pub(crate) fn sizes(
        &self,
        inputs: usize,
        qkv: usize,
        split: &Split,
    ) -> Vec<(&'static str, usize, usize)> {
        let (attended, hidden) = (split.attended, split.hidden);
        let mut sizes = vec![
            ("input of qkv", self.qkv.in_features(), inputs),
            ("output of qkv", self.qkv.out_features(), qkv),
            ("input of output", self.output.in_features(), attended.total),
            ("output of output", self.output.out_features(), hidden.count),
            ("mlp norm", self.mlp_norm.len(), hidden.total),
        ];
        if let Some(norm) = &self.attention_norm {
            sizes.push(("attention norm", norm.len(), hidden.total));
        }
        match &self.mlp {
            Mlp::Dense(dense) => sizes.extend(dense.sizes(split.gated, hidden)),
            Mlp::Mixture(mixture) => sizes.extend(mixture.sizes(split.expert, hidden)),
        }
        sizes
    }

    /// All stages for `rows` of the batch, whose residual stream and delta begin the buffers.
    pub(crate) fn run(&self, member: &Member<'_>, pass: &LayerPass<'_, E>, rows: Range<usize>) {
        let x = self.enter(member, pass, rows.len());
        self.attend(member, pass, rows.clone(), x);
        self.finish(member, pass, rows.len());
    }

    /// From the residual stream and delta to what the first product takes.
    pub(crate) fn enter<'a>(
        &self,
        member: &Member<'_>,
        pass: &LayerPass<'a, E>,
        rows: usize,
    ) -> &'a [E] {
        let (buffers, with_delta) = (pass.buffers, pass.index > 0);
        let width = self.mlp_norm.len();
        match &self.attention_norm {
            Some(norm) => add_norm(member, buffers, rows, norm, pass.epsilon, with_delta),
            None => add(member, buffers, rows, width, with_delta),
        }
        // SAFETY: written by `add_norm` or `add`.
        unsafe { buffers.normed.read(0, rows * width) }
    }

    /// All stages behind `attend`, for as many rows. Apart from it, since the norm between the halves writes
    /// what `attend` may have been given to read.
    pub(crate) fn finish(&self, member: &Member<'_>, pass: &LayerPass<'_, E>, count: usize) {
        self.leave_attention(member, pass, count);
        self.enter_mlp(member, pass, count);
        self.run_mlp(member, pass, count);
    }

    /// From the attended heads to the delta of the first half.
    pub(crate) fn leave_attention(
        &self,
        member: &Member<'_>,
        pass: &LayerPass<'_, E>,
        count: usize,
    ) {
        let (split, buffers) = (pass.split, pass.buffers);
        split.gather(member, Whole::Attended, buffers.attended, count);
        self.project(member, pass, count);
        split.gather(member, Whole::Hidden, buffers.delta, count);
    }

    /// From the residual stream and the first half's delta to what the MLP takes.
    pub(crate) fn enter_mlp(&self, member: &Member<'_>, pass: &LayerPass<'_, E>, count: usize) {
        let (buffers, epsilon) = (pass.buffers, pass.epsilon);
        add_norm(member, buffers, count, &self.mlp_norm, epsilon, true);
    }

    /// From there to the delta of the second half.
    pub(crate) fn run_mlp(&self, member: &Member<'_>, pass: &LayerPass<'_, E>, count: usize) {
        match &self.mlp {
            Mlp::Dense(dense) => dense.run(member, pass, count),
            Mlp::Mixture(mixture) => mixture.run(member, pass, count),
        }
        let (split, buffers) = (pass.split, pass.buffers);
        split.gather(member, Whole::Hidden, buffers.delta, count);
    }

    /// Only the keys and values of the rows; ends with a barrier.
    pub(crate) fn write_entries(
        &self,
        member: &Member<'_>,
        pass: &LayerPass<'_, E>,
        rows: Range<usize>,
        x: &[E],
    ) {
        let (buffers, count, width) = (pass.buffers, rows.len(), self.qkv.out_features());
        let queries = self.output.in_features();
        // SAFETY: only this product writes its output until the barrier.
        unsafe {
            self.qkv
                .run_from(member, x, count, buffers.qkv, width, queries);
        }
        member.barrier();
        // SAFETY: written by the product; nobody reads the queries made of what else is there.
        let qkv = unsafe { buffers.qkv.read(0, count * width) };
        pass.attention.write_kv(member, pass.index, rows, qkv);
        member.barrier();
    }

    /// From the input of the first product, `x: [rows, inputs]`, to the attended heads.
    pub(crate) fn attend(
        &self,
        member: &Member<'_>,
        pass: &LayerPass<'_, E>,
        rows: Range<usize>,
        x: &[E],
    ) {
        let (buffers, count) = (pass.buffers, rows.len());
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

    /// The product of the attended heads.
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
